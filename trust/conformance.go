package trust

import "chimera.ai/engine/conform/verdict"

// maxVerdicts bounds the verdicts of a manifest.
const maxVerdicts = 64

// Conformance returns what a suite found of the server, as far as the manifest carries it. The
// server's fingerprint names the endpoint where the suite ran, such as that of CI, and not where
// workers find the server: those compare its tools.
func (m *Manifest) Conformance() verdict.Summary {
	return verdict.Summary{Suite: m.Suite, ServerFingerprint: m.ServerFingerprint, Cases: m.Verdicts, Examples: m.Examples}
}

// Conformed adds what a suite found of the server to the manifest, with its hash.
func (m *Manifest) Conformed(s verdict.Summary) error {
	hash, err := s.Hash()
	if err != nil {
		return invalid("%s", err)
	}
	m.Suite, m.ServerFingerprint, m.Verdicts, m.Examples, m.ConformanceHash = s.Suite, s.ServerFingerprint, s.Cases, s.Examples, hash
	return nil
}

// checkConformance recomputes the hash of the report.
func (m *Manifest) checkConformance() error {
	if m.ConformanceHash == "" {
		if m.Suite != "" || m.ServerFingerprint != "" || m.Verdicts != nil || m.Examples != "" {
			return invalid("the manifest has parts of a conformance report, and no conformance_hash: they go together")
		}
		return nil
	}
	if m.Suite == "" || m.ServerFingerprint == "" || len(m.Verdicts) == 0 {
		return invalid("the manifest has a conformance_hash, and not all of suite, server_fingerprint and verdicts, of which it is: make the manifest again (chimera tools manifest)")
	}
	if m.ToolsFingerprint == "" {
		return invalid("the manifest has a conformance_hash, and no tools_fingerprint that it is of")
	}
	if err := name("a suite", m.Suite); err != nil {
		return err
	}
	if err := digest("the server", m.ServerFingerprint); err != nil {
		return err
	}
	if m.Examples != "" {
		if err := digest("the examples", m.Examples); err != nil {
			return err
		}
	}
	if n := len(m.Verdicts); n > maxVerdicts {
		return invalid("%d verdicts; there may be %d", n, maxVerdicts)
	}
	for i, c := range m.Verdicts {
		if err := name("a case", c.ID); err != nil {
			return err
		}
		switch {
		case i > 0 && m.Verdicts[i-1].ID >= c.ID:
			return invalid("the verdicts are not sorted by id, or not unique")
		case !c.Verdict.Valid():
			return invalid("%.40q is not the verdict on a case", string(c.Verdict))
		case c.Verdict == verdict.Failed:
			return invalid("the server fails the case %.120q of the suite %s", c.ID, m.Suite)
		}
	}
	hash, err := m.Conformance().Hash()
	if err != nil {
		return invalid("%s", err)
	}
	if m.ConformanceHash != hash {
		return invalid("the conformance_hash is %.80q, and that of the manifest's report is %s", m.ConformanceHash, hash)
	}
	return nil
}
