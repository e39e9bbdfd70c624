#!/bin/sh
set -eu
run=runs/$(date -u +%Y-%m-%dT%H%M%S)

# Train further from the last model that passed, then on all parts: the model that goes live.
icpe train --init-from model --refit -o "$run"
icpe recommend "$run/live" --all -o recs.parquet

# Exits with 1 if a rule is broken, and then the last line is not reached: the old model stays.
icpe audit --log events.csv --items items.csv --recs live=recs.parquet --by category \
    --history bias.parquet --date "$(date -u +%F)" -o audit.html \
    --fail-if 'apt@20<.3' --fail-if 'coverage@20<.8*previous'

ln -sfn "$run" model
