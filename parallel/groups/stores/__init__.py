"""Key-value stores, by which the processes of a job find each other."""
