"""Whoever moves from BoTorch's classes to ours gets the same unless something is said."""

import inspect

import pytest
from botorch.acquisition import qKnowledgeGradient
from botorch.acquisition.input_constructors import construct_inputs_qKG, construct_inputs_qLogNEI
from botorch.acquisition.logei import qLogNoisyExpectedImprovement

from botorch_tv.acquisition import present as ours
from botorch_tv.acquisition.present import (
    qKnowledgeGradientAtPresent,
    qLogNoisyExpectedImprovementAtPresent,
)

PAIRS = [
    (ours.construct_inputs_noisy_improvement, construct_inputs_qLogNEI),
    (ours.construct_inputs_knowledge_gradient, construct_inputs_qKG),
    (qLogNoisyExpectedImprovementAtPresent, qLogNoisyExpectedImprovement),
    (qKnowledgeGradientAtPresent, qKnowledgeGradient),
]


@pytest.mark.parametrize(("our", "theirs"), PAIRS, ids=lambda one: one.__name__)
def test_defaults_are_botorchs(our, theirs):
    here, there = (inspect.signature(one).parameters for one in (our, theirs))
    shared = set(here) & set(there)
    assert len(shared) >= 7
    different = {
        name: (here[name].default, there[name].default)
        for name in shared
        if here[name].default != there[name].default
    }
    assert not different
