// Package causal predicts what an action brings about, by a structural causal model: variables,
// each a function of its parents and of noise, in a graph without cycles. An action sets some of
// them (Pearl's do), and the model says what becomes of the key performance indicators (KPIs),
// and how probable it is that one breaks its bound.
//
// # Evaluation
//
// A prediction is a function of the model, the interventions and the seed: equal ones give equal
// bytes on every machine. No step depends on fused multiply-add or on the assembly versions of
// package math: products are converted explicitly, and exp, log and the quantiles of the normal
// distribution are the package's own.
//
// Of what the KPIs depend on, the method follows:
//
//   - finite: all noise has few values. All worlds are enumerated, and the risk is exact.
//   - gaussian: all mechanisms are linear, all noise is normal, and the KPIs with bounds are
//     independent of each other. Means, variances and the risk have a closed form.
//   - monte_carlo: everything else. Worlds are sampled, by a counter-based generator, and the
//     action is judged by the upper bound of a confidence interval of its risk.
//
// The same noise is used with and without the action, so that what the action does not bring
// about does not differ. What cannot be calculated (a division by zero, a number that is not
// finite) is an error, and never a risk.
//
// The package reads no clock and no file.
package causal
