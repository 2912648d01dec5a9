// Package fit estimates the mechanisms of a causal model from a table of data.
//
// # What is estimated
//
// A number whose parents are numbers is linear in them, by ordinary least squares. A variable with
// categories whose parents have categories is a table of probabilities, and a number whose parents have
// categories a table of means. Variables without parents are noise. Probabilities have Jeffreys' prior
// (half a case for each category), so that none is 0 because a sample is small, and no standard error
// is 0.
//
// Noise has the family that the model declares. With none declared, it is normal. Uniform noise reaches
// beyond the sample by the factor (n+1)/(n-1), and empirical noise has at most [MaxEmpirical] values,
// which are quantiles with the least and the greatest.
//
// # What is identified
//
// The noise of a model's variables is independent, so that the mechanism of a variable is what its parents
// predict, once all of them are measured. A parent without data is never left out silently: the fit is
// refused. [Options.Marginalize] names those whose influence is to become noise. Then the edge is taken out
// of the model, and the other parents are adjusted for a back-door set if they share causes
// with the one left out. It is refused where no measured variables suffice, where an action sets
// the parent or one of its causes, and where, under the action, the parent shares causes with what
// the KPIs depend on otherwise: a model without the edge would state a wrong risk. A number is taken to be linear in
// the members of its set too, each by itself: where it is not, or where they act on each other, part of the
// confounding remains. A table is adjusted without that assumption.
//
// Without an action, a model that was adjusted so is not the whole one: what the set and the variable have in common
// is gone, so that the baseline of what depends on both is not exact.
//
// # Data
//
// Rows that lack a value of a variable in question are left out and counted. That is harmless only if values
// are missing for reasons that have nothing to do with them. Some rows are held out, by a hash of their index,
// and the fitted mechanism is tested on them.
//
// Equal models, data and options give equal results on every machine.
package fit
