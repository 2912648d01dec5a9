package config

import "chimera.ai/engine/diag"

func (l *loader) report(code diag.Code, at diag.Range, summary, detail string) {
	l.ds.Add(diag.Diagnostic{Code: code, Subject: at, Summary: summary, Detail: detail})
}
