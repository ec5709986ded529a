"""Running a graph backward: the engine, its tasks, accumulation, and the streams of nodes."""
