"""The page and the service: `ens serve`.

One process holds the trained models. A solve is a generator of iterates that runs in a worker
thread (`watch`); the event loop takes from it what a client can read and drops the rest
(`stream`). Whoever comes while all places are taken waits in a queue and sees its position
(`queue`). Everything a client sends is bounded before it costs anything (`limits`, `guard`,
`asks`).

    GET  /                 the page, plain modules and canvas, nothing from other hosts
    GET  /models           what can be solved, with the constants of the training
    POST /solve            an array in, an array out (JSON or .npy), with status and bound
    WS   /stream           iterates as they are computed, binary float32 frames
    POST /sensors          a hidden field seen by a few sensors: mean, spread, samples
    GET  /results          rows, tables and figures that were measured, each with its command
    GET  /healthz /metrics
"""
