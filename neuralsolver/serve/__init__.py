"""The page and the service: `ens serve`.

One process holds the trained models. A solve is a generator of steps in a worker thread, which ends
at its next checkpoint when its time is up or its client has left (`solve_steps`, `service`). The
event loop takes from it what a client can read and drops the rest (`stream`). Whoever
comes while all places are taken waits in a queue and sees its position. Everything a
client sends is bounded before it costs anything (`settings`, `gateway`, `requests`).

    GET  /                 the page, plain modules and canvas, nothing from other hosts
    GET  /models           what can be solved, with the constants of the training
    POST /solve            an array in, an array out (JSON or .npy), with status and bound
    WS   /stream           iterates as they are computed, binary float32 frames
    POST /sensors          a hidden field seen by a few sensors: mean, spread, samples
    GET  /results          files of rows, tables and figures that were measured
    GET  /healthz /metrics
"""
