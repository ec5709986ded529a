"""A Ray cluster of nodes that are processes of this machine: ``python -m tests.parallel.launch.ray_cluster``.

It takes "add" and "remove" from its input, a line each, and answers with the address. In a process of its own, since Ray's threads
would be in the way of what other tests fork.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Two nodes with two processors each, until the input ends."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    options = {"num_cpus": 2, "object_store_memory": 80 << 20}
    try:
        cluster.add_node(include_dashboard=False, **options)
        cluster.add_node(**options)
        print(cluster.address, flush=True)
        for line in sys.stdin:
            if line == "add\n":
                cluster.add_node(**options)
            else:
                cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            print(cluster.address, flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
