package causal

import (
	"encoding/json"
	"strconv"
)

// Method is how a prediction was made.
type Method string

// The methods. The package's documentation says when each is taken.
const (
	Finite     Method = "finite"
	Gaussian   Method = "gaussian"
	MonteCarlo Method = "monte_carlo"
)

// Intervention sets a variable.
type Intervention struct {
	Variable string `json:"variable"`
	Value    Value  `json:"value"`
}

// Prediction is what a model says of an action.
type Prediction struct {
	// ID is "sim_" and 32 hex digits, of the model, the interventions and the seed.
	ID string `json:"sim_id"`
	// Name is that of the model, Model its digest.
	Name   string `json:"model"`
	Model  string `json:"model_digest"`
	Method Method `json:"method"`
	// Samples and Seed are there if the method is MonteCarlo.
	Samples       int            `json:"samples,omitempty"`
	Seed          string         `json:"seed,omitempty"`
	Interventions []Intervention `json:"interventions"`
	KPIs          []Forecast     `json:"kpis"`
	// Risk is the probability that any KPI breaks its bound, by which the action is judged: of samples
	// the upper end of a confidence interval. It is a decimal from 0 to 1, rounded up at [RiskPlaces].
	// Estimate is the probability itself, and Baseline what Risk is without the action.
	Risk     json.Number `json:"risk"`
	Estimate json.Number `json:"estimate"`
	Baseline json.Number `json:"baseline"`
	// Summary says it in words, on one line.
	Summary string `json:"summary"`
}

// RiskPlaces is how many decimals a risk has. A risk that is not 0 is at least one unit of the last.
const RiskPlaces = 9

// Forecast is the distribution of one KPI.
type Forecast struct {
	KPI
	// Broken is the probability that it breaks its bound: as Risk, of samples the upper end of an interval.
	// Estimate is then the probability itself; it is there if the method is MonteCarlo and the KPI has a bound.
	Broken   json.Number  `json:"broken"`
	Estimate json.Number  `json:"estimate,omitempty"`
	With     Distribution `json:"with"`
	// Without is the distribution without the action.
	Without Distribution `json:"without"`
	// Low and High are the ends of the bins of both.
	Low  float64 `json:"-"`
	High float64 `json:"-"`
}

// Distribution is the distribution of a variable: mean, variance, and the quantiles of 5 %, 50 % and
// 95 % of a number; the probabilities of categories in the order of the model.
type Distribution struct {
	Mean     json.Number `json:"mean,omitempty"`
	Variance json.Number `json:"variance,omitempty"`
	P05      json.Number `json:"p05,omitempty"`
	P50      json.Number `json:"p50,omitempty"`
	P95      json.Number `json:"p95,omitempty"`
	// P has one probability for each category.
	P []Share `json:"p,omitempty"`
	// Bins, for plots only, are the probabilities of equal intervals from Forecast.Low to Forecast.High.
	Bins []float64 `json:"-"`
}

// Share is the probability of a category.
type Share struct {
	Category string      `json:"category"`
	P        json.Number `json:"p"`
}

// number formats a finite number: the shortest that reads back as it.
func number(x float64) json.Number { return json.Number(strconv.FormatFloat(x, 'g', -1, 64)) }
