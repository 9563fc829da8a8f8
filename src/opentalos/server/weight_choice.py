"""The broker's choice of weights, for the command line."""

from opentalos.broker.cluster.weight_choice import Proposal, choose_weights, variance

__all__ = ["Proposal", "choose_weights", "variance"]
