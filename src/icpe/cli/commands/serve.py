"""``icpe serve``: recommendations over HTTP, and a page to look at them."""

import os

import click

from icpe.cli.options import json_option, plugin_option, print_json

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN [NAME=RUN]…")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 takes any free one."
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of processes.")
@click.option(
    "--share",
    "shares",
    multiple=True,
    metavar="NAME=0.1",
    help="Share of the users whom a further model answers, by a hash of the user; repeatable. The first model answers "
    "the rest.",
)
@plugin_option
@json_option
def serve(
    runs: tuple[str, ...],
    host: str,
    port: int,
    workers: int,
    shares: tuple[str, ...],
    plugins: tuple[str, ...],
    as_json: bool,
) -> None:
    """Serve the models of one or several runs over HTTP.

    The page at / shows what users get and what every setting of the dial changes; /docs describes all requests,
    /metrics reports latency and live exposure to Prometheus. The first model answers unless a request names another
    one. After Ctrl-C or SIGTERM, requests under way are still answered.

    If the environment variable ICPE_API_KEY is set, clients must send its value in the header X-API-Key.

    Example: icpe serve demo/icpe old=demo/normal --share old=0.1 --port 8000
    """
    for name in _THREADS:  # requests are small: threads that share one would only wait for each other
        os.environ.setdefault(name, "1")
    from icpe.serve.settings import KEY_VARIABLE, ServeSettings, parse_models, parse_shares, require_extra

    require_extra()
    folders = parse_models(runs)
    settings = ServeSettings(folders=folders, shares=parse_shares(shares, folders), workers=workers, plugins=plugins)
    from icpe.serve.guard import check_key
    from icpe.serve.server import answer_requests, listen
    from icpe.serve.version import version_of

    key = check_key(os.environ.get(KEY_VARIABLE))
    versions = {name: version_of(folder) for name, folder in folders.items()}  # a wrong folder fails at once
    with listen(host, port) as sock:
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{sock.getsockname()[1]}/"
        if as_json:
            print_json({"url": url, "models": versions, "workers": workers, "key": key is not None})
        else:
            click.echo(f"Serving {', '.join(folders)} at {url}. Stop with Ctrl-C.")
        answer_requests(settings, sock)
