"""Training jobs as people run them: killed, started again, resumed elsewhere; drawn at random."""
