// Command predict makes the predictions of a file again, and prints the file that has them.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"chimera.ai/engine/guardian/causal"
)

type prediction struct {
	Name       string                `json:"name"`
	Model      *causal.Model         `json:"model"`
	Do         []causal.Intervention `json:"do"`
	Prediction *causal.Prediction    `json:"prediction"`
	Bins       []string              `json:"bins"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "predict:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var all []prediction
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	for i := range all {
		p := &all[i]
		s, err := causal.New(p.Model)
		if err != nil {
			return err
		}
		if p.Prediction, err = s.Simulate(p.Do, "golden"); err != nil {
			return err
		}
		p.Bins = nil
		for _, f := range p.Prediction.KPIs {
			p.Bins = append(p.Bins, fmt.Sprintf("%x %x %x %x", f.Low, f.High, f.With.Bins, f.Without.Bins))
		}
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	return out.Encode(all)
}
