"""Horovod has a front end for MXNet here; this project has none, and says so."""

from horovod._absent_front_ends import refuse

refuse(__name__)
