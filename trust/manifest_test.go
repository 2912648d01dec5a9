package trust

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/conform/verdict"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/plan"
)

// tool is a tool of a manifest whose fingerprint is made up.
func tool(name string, effect plan.EffectClass) ManifestTool {
	return ManifestTool{Name: name, Fingerprint: plan.DigestOf([]byte(name)), Effect: effect}
}

func mailManifest(t testing.TB) Manifest {
	t.Helper()
	m := Manifest{
		Format: ManifestFormat, Provider: "mail", Version: "1.2.0", Issued: at(1), Tools: []ManifestTool{tool("read", plan.Pure), tool("send", plan.Committing)},
		Provenance: &Provenance{Repository: "https://example.com/mail", Revision: "abc"},
	}
	var err error
	m.ToolsFingerprint, err = fingerprint.Tools([]fingerprint.Print{{Tool: "read", Digest: m.Tools[0].Fingerprint}, {Tool: "send", Digest: m.Tools[1].Fingerprint}})
	require.NoError(t, err)
	require.NoError(t, m.Conformed(summary()))
	return m
}

// summary is that of a report in which all cases passed.
func summary() verdict.Summary {
	s := verdict.Summary{Suite: verdict.Suite, ServerFingerprint: plan.DigestOf([]byte("server")), Examples: plan.DigestOf([]byte("examples"))}
	for _, id := range verdict.IDs() {
		s.Cases = append(s.Cases, verdict.Case{ID: id, Verdict: verdict.Passed})
	}
	return s
}

func signedManifest(t testing.TB, k *Key, m Manifest) (envelope []byte, digest string) {
	t.Helper()
	envelope, err := SignManifest(k, m)
	require.NoError(t, err)
	_, digest, err = ReadManifest(envelope)
	require.NoError(t, err)
	return envelope, digest
}

// TestManifest: what a bound publisher has signed, and admins have accepted, is verified; keys of
// both kinds sign.
func TestManifest(t *testing.T) {
	for name, k := range map[string]*Key{"Ed25519": ed(t), "P-256": p256(t)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			envelope, digest := signedManifest(t, k, mailManifest(t))
			s := w.state(w.sign(w.state().Draft(day, &AddPublisher{"max", "max", k.Public(), []string{UseManifests}, []string{"mail"}}, &AcceptManifest{"mail", "1.2.0", digest})))
			m, err := VerifyManifest(s, envelope, "mail")
			require.NoError(t, err)
			require.Equal(t, mailManifest(t), m)
			id, err := ManifestPublisher(s, envelope)
			require.NoError(t, err)
			require.Equal(t, "max", id)
			require.NoError(t, s.Manifested("mail", &m))
			require.ErrorContains(t, s.Manifested("mail", nil), "this worker has none")
		})
	}
}

// TestRogueManifests: none counts that the publisher of the provider has not signed, or the
// admins have not accepted last.
func TestRogueManifests(t *testing.T) {
	w := newWorld(t)
	max, moe, gone, plans, stranger := ed(t), ed(t), ed(t), ed(t), ed(t)
	good, digest := signedManifest(t, max, mailManifest(t))
	newer := mailManifest(t)
	newer.Version = "1.3.0"
	next, nextDigest := signedManifest(t, max, newer)
	s := w.state(w.sign(w.state().Draft(day,
		&AddPublisher{"max", "max", max.Public(), []string{UseManifests}, []string{"files", "mail"}}, &AddPublisher{"moe", "moe", moe.Public(), []string{UseManifests}, []string{"files"}},
		&AddPublisher{"old", "old", stranger.Public(), []string{UseManifests}, nil}, &AddPublisher{"fay", "fay", plans.Public(), []string{UsePlans}, nil},
		&AddPublisher{"gus", "gus", gone.Public(), []string{UseManifests}, []string{"mail"}}, &RevokePublisher{"gus"}, &AcceptManifest{"mail", "1.2.0", digest})))
	later, err := s.Next(w.sign(s.Draft(day, &AcceptManifest{"mail", "1.3.0", nextDigest})))
	require.NoError(t, err)
	mislabelled, err := s.Next(w.sign(s.Draft(day, &AcceptManifest{"mail", "1.2.9", nextDigest})))
	require.NoError(t, err)
	revoked, err := s.Next(w.sign(s.Draft(day, &RevokePublisher{"max"})))
	require.NoError(t, err)
	by := func(k *Key) []byte {
		raw, _ := signedManifest(t, k, mailManifest(t))
		return raw
	}
	e, err := ParseEnvelope(good, ManifestType)
	require.NoError(t, err)
	e.Payload = []byte(strings.Replace(string(e.Payload), `"committing"`, `"pure"`, 1))
	altered, err := e.Encode()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		state    State
		raw      []byte
		provider string
		want     string
	}{
		"nobody's key":         {s, by(ed(t)), "mail", "no publisher of manifests has signed it"},
		"of plans":             {s, by(plans), "mail", "the publisher fay, who has signed it, does not sign manifests"},
		"of another provider":  {s, by(moe), "mail", `the publisher moe, who has signed it, does not sign manifests of "mail"`},
		"of no provider":       {s, by(stranger), "mail", `the publisher old, who has signed it, does not sign manifests of "mail"`},
		"revoked":              {s, by(gone), "mail", "the publisher gus, who has signed it, was revoked at"},
		"revoked meanwhile":    {revoked, good, "mail", "the publisher max, who has signed it, was revoked at"},
		"for another provider": {s, good, "files", `the manifest is of the provider "mail", not of "files"`},
		"not accepted":         {s, next, "mail", "the admins have accepted last"},
		"replaced":             {later, good, "mail", "the admins have accepted last"},
		"of another version":   {mislabelled, next, "mail", "as version 1.2.9, and its version is 1.3.0"},
		"none accepted":        {w.state(), good, "mail", "no publisher of manifests"},
		"altered":              {s, altered, "mail", "no publisher of manifests has signed it"},
		"no envelope":          {s, []byte(`{}`), "mail", "the envelope"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := VerifyManifest(c.state, c.raw, c.provider)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err = VerifyManifest(later, next, "mail")
	require.NoError(t, err)
	require.ErrorContains(t, s.Accepts(&Manifest{Provider: "files"}, digest), "accepted no manifest")
}

// TestManifestVersionsNeverFall, and one version is one manifest.
func TestManifestVersionsNeverFall(t *testing.T) {
	w := newWorld(t)
	d := func(s string) string { return plan.DigestOf([]byte(s)) }
	for _, c := range []struct {
		versions string
		want     string
	}{
		{"1.2.0 1.10.0 2.0.0-rc.1 2.0.0 2.0.1", ""},
		{"1.2.0 1.2.0", ""},
		{"1.10.0 1.9.0", "would fall from 1.10.0 to 1.9.0"},
		{"2.0.0 2.0.0-rc.1", "would fall from 2.0.0 to 2.0.0-rc.1"},
		{"1.2.0+a 1.2.0+b", "another manifest of version 1.2.0+a"},
		{"1.2", "is not a semantic version"},
		{"v1.2.0", "is not a semantic version"},
		{"1.2.0-01", "is not a semantic version"},
		{"1.2.0-" + strings.Repeat("a", 256), "is not a semantic version"},
	} {
		var acts []Act
		for _, v := range strings.Fields(c.versions) {
			acts = append(acts, &AcceptManifest{"mail", v, d(v)})
		}
		err := w.state().Try(acts...)
		if c.want == "" {
			require.NoError(t, err, c.versions)
			continue
		}
		require.ErrorContains(t, err, c.want, c.versions)
	}
	require.ErrorContains(t, w.state().Try(&AcceptManifest{"mail", "1.0.0", d("a")}, &AcceptManifest{"mail", "1.0.0", d("b")}), "has another manifest of version 1.0.0")
	require.NoError(t, w.state().Try(&AcceptManifest{"mail", "2.0.0", d("a")}, &AcceptManifest{"files", "1.0.0", d("b")}), "of another provider")
}

// TestReportsOfManifests: a report that does not fit its hash is neither signed nor read, nor one with
// a case that failed.
func TestReportsOfManifests(t *testing.T) {
	k := ed(t)
	for name, c := range map[string]struct {
		change func(*Manifest)
		hash   bool // the hash is made to fit
		want   string
	}{
		"another hash":          {func(m *Manifest) { m.ConformanceHash = plan.DigestOf(nil) }, false, "and that of the manifest's report is sha256:"},
		"no digest":             {func(m *Manifest) { m.ConformanceHash = "x" }, false, `the conformance_hash is "x"`},
		"of another server":     {func(m *Manifest) { m.ServerFingerprint = plan.DigestOf(nil) }, false, "the conformance_hash is"},
		"of another suite":      {func(m *Manifest) { m.Suite = "chimera-conform/2" }, false, "the conformance_hash is"},
		"of other examples":     {func(m *Manifest) { m.Examples = "" }, false, "the conformance_hash is"},
		"another verdict":       {func(m *Manifest) { m.Verdicts[3].Verdict = verdict.Warned }, false, "the conformance_hash is"},
		"a case less":           {func(m *Manifest) { m.Verdicts = m.Verdicts[1:] }, false, "the conformance_hash is"},
		"a case failed":         {func(m *Manifest) { m.Verdicts[0].Verdict = verdict.Failed }, true, `the server fails the case "bad-arguments"`},
		"no verdict":            {func(m *Manifest) { m.Verdicts[0].Verdict = "" }, true, "is not the verdict on a case"},
		"unsorted":              {func(m *Manifest) { slices.Reverse(m.Verdicts) }, true, "the verdicts are not sorted by id"},
		"twice":                 {func(m *Manifest) { m.Verdicts[1] = m.Verdicts[0] }, true, "or not unique"},
		"too many":              {func(m *Manifest) { m.Verdicts = make([]verdict.Case, 65) }, true, "65 verdicts; there may be 64"},
		"a name":                {func(m *Manifest) { m.Verdicts[0].ID = "a\u200b" }, true, "is not the name of a case"},
		"a suite":               {func(m *Manifest) { m.Suite = " " }, true, "is not the name of a suite"},
		"fingerprint":           {func(m *Manifest) { m.ServerFingerprint = "x" }, true, "the digest of the server is"},
		"examples":              {func(m *Manifest) { m.Examples = "x" }, true, "the digest of the examples is"},
		"the hash alone":        {func(m *Manifest) { m.ServerFingerprint, m.Verdicts, m.Examples = "", nil, "" }, false, "and not all of suite, server_fingerprint and verdicts"},
		"the report alone":      {func(m *Manifest) { m.ConformanceHash = "" }, false, "and no conformance_hash"},
		"the verdicts, no hash": {func(m *Manifest) { m.Suite, m.ServerFingerprint, m.Examples, m.ConformanceHash = "", "", "", "" }, false, "and no conformance_hash"},
	} {
		t.Run(name, func(t *testing.T) {
			m := mailManifest(t)
			c.change(&m)
			if c.hash {
				require.NoError(t, m.Conformed(m.Conformance()))
			}
			_, err := SignManifest(k, m)
			require.ErrorContains(t, err, c.want)
			raw, err := seal(ManifestType, &m, k)
			require.NoError(t, err)
			_, _, err = ReadManifest(raw)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestReportsOfProduction: production demands all cases of the suite that it knows.
func TestReportsOfProduction(t *testing.T) {
	w := newWorld(t)
	waived := w.state(w.sign(w.state().Draft(day, &WaiveManifest{"mail", "it is ours"})))
	for name, c := range map[string]struct {
		change func(*verdict.Summary)
		want   string
	}{
		"a case less":   {func(s *verdict.Summary) { s.Cases = s.Cases[:14] }, "there is no verdict on the case unknown-tool"},
		"skipped":       {func(s *verdict.Summary) { s.Cases[14].Verdict = verdict.Skipped }, "the case unknown-tool was skipped"},
		"another suite": {func(s *verdict.Summary) { s.Suite = "chimera-conform/2" }, `the suite is "chimera-conform/2"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := summary(), mailManifest(t)
			c.change(&s)
			require.NoError(t, m.Conformed(s))
			_, err := SignManifest(ed(t), m)
			require.NoError(t, err)
			require.NoError(t, waived.Manifested("mail", &m))
			state := w.state()
			require.ErrorIs(t, state.Manifested("mail", &m), ErrInvalid)
			require.ErrorContains(t, state.Manifested("mail", &m), "is not enough, which the admins have not waived (manifest.waive): "+c.want)
		})
	}
}

// TestWaivers: a waiver stands for what is missing, until a manifest is accepted.
func TestWaivers(t *testing.T) {
	w := newWorld(t)
	bare := mailManifest(t)
	bare.Suite, bare.ServerFingerprint, bare.Verdicts, bare.Examples, bare.ConformanceHash = "", "", nil, "", ""
	accept, waive := &AcceptManifest{"mail", "1.2.0", plan.DigestOf(nil)}, &WaiveManifest{"mail", "it is ours"}
	for name, c := range map[string]struct {
		acts       []Act
		none, bare string
	}{
		"nothing":          {[]Act{agent("a")}, "has effects and no manifest", "has no report"},
		"waived":           {[]Act{waive}, "", ""},
		"of another":       {[]Act{&WaiveManifest{"files", "it is ours"}}, "has effects and no manifest", "has no report"},
		"accepted":         {[]Act{accept}, "this worker has none", "has no report"},
		"then accepted":    {[]Act{waive, accept}, "this worker has none", "has no report"},
		"waived once more": {[]Act{waive, accept, waive}, "this worker has none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.state(w.sign(w.state().Draft(day, c.acts...)))
			whole := mailManifest(t)
			require.NoError(t, s.Manifested("mail", &whole))
			for want, m := range map[string]*Manifest{c.none + " ": nil, c.bare: &bare} {
				want = strings.TrimSpace(want)
				if err := s.Manifested("mail", m); want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, want)
				}
			}
		})
	}
	require.ErrorContains(t, w.state().Try(&WaiveManifest{Provider: "mail"}), "is not the name of a reason")
}

// TestProvidersOfPublishers: only those of manifests have some, and old acts stay as they were.
func TestProvidersOfPublishers(t *testing.T) {
	k := ed(t).Public()
	raw, err := json.Marshal(&AddPublisher{"max", "max", k, []string{UseManifests}, nil})
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"id":"max","person":"max","key":%q,"uses":["manifests"]}`, k), string(raw))
	for _, c := range []struct {
		uses, providers []string
		want            string
	}{
		{[]string{UseManifests, UsePlans}, []string{"a", "b"}, ""},
		{[]string{UsePlans}, []string{"a"}, "has providers, and does not sign manifests"},
		{[]string{UseManifests}, []string{"b", "a"}, "not sorted"},
		{[]string{UseManifests}, []string{""}, "is not the name of providers"},
	} {
		err := (&AddPublisher{"max", "max", k, c.uses, c.providers}).check()
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
	_, err = ParseActs(fmt.Appendf(nil, `[{"act":"publisher.add","data":{"id":"max","person":"max","key":%q,"uses":["manifests"],"providers":[]}}]`, k))
	require.ErrorIs(t, err, ErrInvalid)
}

// TestManifestsAreExact: what is malformed is not signed, and not read from one who signs it.
func TestManifestsAreExact(t *testing.T) {
	k := ed(t)
	for name, f := range map[string]func(*Manifest){
		"the format is":                          func(m *Manifest) { m.Format = "x" },
		"is not the name of a provider":          func(m *Manifest) { m.Provider = " " },
		"is not a semantic version":              func(m *Manifest) { m.Version = "1" },
		"0 tools":                                func(m *Manifest) { m.Tools = nil },
		"are not sorted by name":                 func(m *Manifest) { slices.Reverse(m.Tools) },
		"or not unique":                          func(m *Manifest) { m.Tools[1] = m.Tools[0] },
		"is not the name of a tool":              func(m *Manifest) { m.Tools[0].Name = "a\u200bb" },
		"the digest of the tool read":            func(m *Manifest) { m.Tools[0].Fingerprint = "" },
		"is not the effect class":                func(m *Manifest) { m.Tools[0].Effect = "" },
		"the tools_fingerprint is":               func(m *Manifest) { m.ToolsFingerprint = m.ConformanceHash },
		"no tools_fingerprint that it is of":     func(m *Manifest) { m.ToolsFingerprint = "" },
		"the provenance is empty":                func(m *Manifest) { m.Provenance = new(Provenance) },
		"is not the name of a provenance":        func(m *Manifest) { m.Provenance.Builder = strings.Repeat("x", 257) },
		"513 tools; there must be between 1 and": func(m *Manifest) { m.Tools = make([]ManifestTool, 513) },
	} {
		m := mailManifest(t)
		f(&m)
		raw, err := seal(ManifestType, &m, k)
		require.NoError(t, err)
		_, _, err = ReadManifest(raw)
		require.ErrorIs(t, err, ErrInvalid, name)
		require.ErrorContains(t, err, name)
		if m.Format == ManifestFormat {
			_, err = SignManifest(k, m)
			require.ErrorContains(t, err, name)
		}
	}
	good, err := canon(mailManifest(t))
	require.NoError(t, err)
	for _, c := range []struct{ old, now string }{
		{`"provider"`, `"also":1,"provider"`}, {`"provider"`, `"provider":"x","provider"`}, {`"provider"`, `"Provider"`}, {`"version":"1.2.0"`, `"version":null`},
		{`"suite":"chimera-conform/1"`, `"suite":""`}, {`"id":"stops"`, `"id":"stops","more":1`}, {`"name":"read"`, `"name":"read","more":1`}, {`"revision"`, `"Revision"`},
	} {
		require.Contains(t, string(good), c.old)
		e := &Envelope{Type: ManifestType, Payload: []byte(strings.Replace(string(good), c.old, c.now, 1))}
		require.NoError(t, e.Sign(k))
		raw, err := e.Encode()
		require.NoError(t, err)
		_, _, err = ReadManifest(raw)
		require.ErrorIs(t, err, ErrInvalid, c.now)
	}
	_, _, err = ReadManifest(make([]byte, MaxManifest+1))
	require.ErrorIs(t, err, ErrInvalid)
}

func TestCovers(t *testing.T) {
	m := mailManifest(t)
	send := m.Tools[1].Fingerprint
	for _, c := range []struct {
		tool, pinned string
		effect       plan.EffectClass
		want         string
	}{
		{"send", send, plan.Committing, ""},
		{"send", send, plan.Irreversible, ""},
		{"send", send, plan.Staged, "is said to be staged, and the manifest of mail 1.2.0 says committing"},
		{"send", send, plan.Pure, "is said to be pure"},
		{"send", send, "", "is said to be"},
		{"send", m.Tools[0].Fingerprint, plan.Committing, "is pinned as"},
		{"send", "", plan.Committing, "nothing pins the tool"},
		{"erase", send, plan.Committing, `has no tool "erase"`},
	} {
		err := m.Covers(c.tool, c.pinned, c.effect)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, c.want)
	}
}

// FuzzManifest: whatever arrives as a manifest, it is refused, or it is what the publisher has
// signed, and nothing panics.
func FuzzManifest(f *testing.F) {
	w := newWorld(f)
	max := seeded(f, 3)
	envelope, digest := signedManifest(f, max, mailManifest(f))
	s := w.state(w.sign(w.state().Draft(day, &AddPublisher{"max", "max", max.Public(), []string{UseManifests}, []string{"mail"}}, &AcceptManifest{"mail", "1.2.0", digest})))
	e, err := ParseEnvelope(envelope, ManifestType)
	require.NoError(f, err)
	f.Add(envelope)
	f.Add(e.Payload)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := VerifyManifest(s, raw, "mail"); err == nil {
			_, d, err := ReadManifest(raw)
			require.NoError(t, err)
			require.Equal(t, digest, d)
		} else {
			require.ErrorIs(t, err, ErrInvalid)
		}
		// What is signed is read back as it is, or it was no manifest.
		e := &Envelope{Type: ManifestType, Payload: raw}
		require.NoError(t, e.Sign(max))
		sealed, err := e.Encode()
		if err != nil {
			return
		}
		m, _, err := ReadManifest(sealed)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			return
		}
		again, err := SignManifest(max, m)
		require.NoError(t, err)
		same, _, err := ReadManifest(again)
		require.NoError(t, err)
		require.Equal(t, m, same)
	})
}
