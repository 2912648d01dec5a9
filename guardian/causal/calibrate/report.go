// Package calibrate says how good the forecasts of causal models were, by what was observed
// afterwards.
//
// A forecast is honest if what it calls a risk of 20 % happens in one of five cases, and if
// its 90 % intervals hold nine of ten values. Few observations prove little, so each share
// comes with a confidence interval, and drift has to be significant. A score that cannot be
// computed is absent, never 0.
//
// A [Report] is JSON with stable names. It depends on the pairs alone, not on their order.
package calibrate

import (
	"time"

	"chimera.ai/engine/guardian/causal"
)

// Pair is a forecast and what was observed of it. It comes from a store: [Measure] trusts none
// of it.
type Pair struct {
	// At is when the forecast was made.
	At time.Time
	// Model is the digest of the model that the store names.
	Model      string
	Prediction *causal.Prediction
	// Observed holds the values of KPIs, by name. KPIs may be missing.
	Observed map[string]causal.Value
}

// Report says how good the forecasts of models were.
type Report struct {
	// Forecasts counts the pairs, and Refused those of them that are not used.
	Forecasts int       `json:"forecasts"`
	Refused   int       `json:"refused,omitempty"`
	Problems  []Problem `json:"problems,omitempty"`
	// Models are sorted by name, then by the time of their first forecast.
	Models []Model `json:"models"`
}

// Problem says why pairs were refused.
type Problem struct {
	Message string `json:"problem"`
	Count   int    `json:"count"`
}

// Model says how good the forecasts of one model were.
type Model struct {
	Name   string `json:"model"`
	Digest string `json:"model_digest"`
	// First and Last are the times of the first and the last forecast.
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Forecasts int       `json:"forecasts"`
	// Risk scores the probability that any KPI breaks its bound, by the forecasts of which all
	// KPIs with a bound were observed.
	Risk *Risk `json:"risk,omitempty"`
	// KPIs are in the order of the forecasts.
	KPIs []KPI `json:"kpis"`
}

// KPI says how good the forecasts of one KPI were.
type KPI struct {
	Name string `json:"kpi"`
	Unit string `json:"unit,omitempty"`
	// Forecasts counts those of the KPI, and Observed those of which a value was observed.
	Forecasts int `json:"forecasts"`
	Observed  int `json:"observed"`
	// Unusable counts observations that are not of the KPI's kind, or too large: no score has them.
	Unusable int `json:"unusable,omitempty"`
	// Risk is there if the KPI has a bound, Interval and Residual if it is a number, Categories
	// if it has categories; each only if something was observed.
	Risk       *Risk       `json:"risk,omitempty"`
	Interval   *Interval   `json:"interval,omitempty"`
	Residual   *Residual   `json:"residual,omitempty"`
	Categories *Categories `json:"categories,omitempty"`
	Drift      Drift       `json:"drift"`
}

// Share is a part of observations, with the Wilson score interval of 95 %.
type Share struct {
	Count int     `json:"count"`
	Of    int     `json:"of"`
	Rate  float64 `json:"rate"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Score is a Brier score: the mean square error of probabilities, at best 0.
type Score struct {
	Brier float64 `json:"brier"`
	// Reference is the score of always saying the observed rate.
	Reference float64 `json:"reference"`
	// Skill is 1 - Brier/Reference: 1 is perfect, 0 or less is no better than the rate. It is
	// absent if Reference is 0, because always the same was observed.
	Skill *float64 `json:"skill,omitempty"`
}

// Risk says how good the probabilities of broken bounds were.
type Risk struct {
	Score
	// Predicted is the mean of the probabilities, and Broken how often the bound broke.
	Predicted float64 `json:"predicted"`
	Broken    Share   `json:"broken"`
	// Bins are the calibration curve: those tenths of the probabilities in which there are forecasts.
	Bins []Bin `json:"bins"`
}

// Bin is one point of a calibration curve: the forecasts of a probability from Low to under High
// (up to 1 in the last).
type Bin struct {
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	Predicted float64 `json:"predicted"`
	Broken    Share   `json:"broken"`
}

// Interval says how many of the observed values are between the quantiles of 5 % and 95 %, and how
// many are on either side. The rate should be 0.9, or more where a forecast has few values.
type Interval struct {
	Inside Share `json:"inside"`
	Below  int   `json:"below"`
	Above  int   `json:"above"`
}

// Residual says how far the observed values are from the predicted means.
type Residual struct {
	// Mean is in the unit of the KPI.
	Mean float64 `json:"mean"`
	// Standardized is the mean in units of the predicted standard deviation, and Spread the standard
	// deviation of that, which should be 1. Of counts the observations whose forecast has
	// a standard deviation.
	Standardized *float64 `json:"standardized,omitempty"`
	Spread       *float64 `json:"spread,omitempty"`
	Of           int      `json:"of"`
}

// Categories says how good the probabilities of categories were. Its Brier score is the sum over the
// categories, at worst 2.
type Categories struct {
	Score
	// Shares are in the order of the model.
	Shares []CategoryShare `json:"shares"`
	// Unforeseen counts observed categories that the model does not have.
	Unforeseen int `json:"unforeseen,omitempty"`
}

// CategoryShare compares the mean probability of a category with how often it was observed.
type CategoryShare struct {
	Category  string  `json:"category"`
	Predicted float64 `json:"predicted"`
	Observed  Share   `json:"observed"`
}

// DriftState says whether recent residuals differ from earlier ones.
type DriftState string

// The states.
const (
	// NotEnoughData: a window has fewer than [MinWindow] observations.
	NotEnoughData DriftState = "not_enough_data"
	NoDrift       DriftState = "none"
	Drifted       DriftState = "drift"
)

// Drift compares the residuals of recent observations with those of earlier ones.
type Drift struct {
	State DriftState `json:"state"`
	// Measure is what Mean and SD are of: "standardized" residuals, if all forecasts have a standard
	// deviation; otherwise "residual"; "surprise" for categories, which is the Brier score
	// without what the forecast expects it to be.
	Measure string  `json:"measure,omitempty"`
	Earlier *Window `json:"earlier,omitempty"`
	Recent  *Window `json:"recent,omitempty"`
	// T is Welch's statistic, and Critical the value that its size has to exceed. They are absent if
	// the residuals are constant within each window.
	T        *float64 `json:"t,omitempty"`
	Critical *float64 `json:"critical,omitempty"`
}

// Window is a part of the observations, by time.
type Window struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Of    int       `json:"of"`
	Mean  float64   `json:"mean"`
	SD    float64   `json:"sd"`
}
