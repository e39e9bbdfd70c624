"""The HTTP service: recommendations of one or several models, live exposure, and a page to look at them.

The extra ``serve`` brings FastAPI, uvicorn and prometheus-client. Only ``answers`` asks models for lists.
"""
