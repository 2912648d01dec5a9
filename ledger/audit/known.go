package audit

import "chimera.ai/engine/ledger"

// whyKnown has why entries are known, by their hashes.
func (t Trust) whyKnown() map[ledger.Hash]string {
	all := map[ledger.Hash]string{}
	for _, k := range t.Known {
		all[k.Entry] = k.Why
	}
	return all
}

// know notes where an entry stands that the trust file knows.
func (v *verifier) know(i int64, h ledger.Hash) {
	if why, ok := v.whyKnown[h]; ok {
		v.knownAt[i] = why
	}
}

// problem adds a problem, or a warning if the trust file knows the entry and the problem is what
// that states. What is wrong with its form, chain or body stays a problem.
func (v *verifier) problem(kind ProblemKind, index int64, format string, args ...any) {
	why, ok := v.knownAt[index]
	if !ok || kind != BadStory && kind != BadAuthority {
		v.Report.problem(kind, index, format, args...)
		return
	}
	v.warn(kind, index, "known, %q: "+format, append([]any{why}, args...)...)
}

// judgeKnown tells of entries that the trust file knows, and the log does not have.
func (v *verifier) judgeKnown() {
	if missing := len(v.whyKnown) - len(v.knownAt); missing > 0 {
		v.warn(BadEntry, -1, "%s", count(int64(missing), "entry that the trust file knows is not in what was read of the log", "entries that the trust file knows are not in what was read of the log"))
	}
}
