"""Makes the `loss` that an Estimator reports and writes for TensorBoard the loss over all rows.

An Estimator adds one more metric, the mean of the losses of the batches. If batches differ in
rows or in weights, this is another number than the loss over rows, which `model_fn` returns as
`total_loss`. An Estimator refuses a metric with the name `loss`, and a subclass must not override
its methods. So this module replaces the value where the Estimator hands its metrics to the session,
in a method of tensorflow-estimator 2.15.0, the only version that the kit works with.
"""

from __future__ import annotations

from typing import Any

from estimator_kit.model.names import TOTAL_LOSS


def over_rows(made: Any) -> Any:
    """The same Estimator. Its evaluations report the loss over rows as `loss`."""
    evaluate = made._evaluate_run

    def evaluate_run(*, eval_dict: dict[str, Any], **arguments: Any) -> Any:
        if TOTAL_LOSS in eval_dict:
            eval_dict = dict(eval_dict)
            eval_dict["loss"] = eval_dict.pop(TOTAL_LOSS)
        return evaluate(eval_dict=eval_dict, **arguments)

    made._evaluate_run = evaluate_run
    return made
