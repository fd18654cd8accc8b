"""Starting the ranks of a job, on this host and on others."""
