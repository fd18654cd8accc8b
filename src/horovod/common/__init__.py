"""What all front ends share, under Horovod's public names."""
