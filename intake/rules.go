package intake

import (
	"regexp"
	"strings"
	"unicode"
)

// rule finds text that speaks to a model, or asks for what no description needs.
type rule struct {
	kind   FlagKind
	reason string
	// any of these parts is in what the pattern matches.
	parts   []string
	pattern *regexp.Regexp
}

// rules read folded texts.
var rules = []rule{
	{Instruction, "it tells a model to forget its instructions", []string{"ignor", "disregard", "forget", "overrid", "bypass"},
		regexp.MustCompile(`\b(ignor|disregard|forget|overrid|bypass)(e|es|ing)? ([a-z]+ ){0,4}(instruction|prompt|rule|message|direction|guideline|context|polic|training)`)},
	{Instruction, "it tells a model to keep something from people", []string{"user", "human", "operator", "person", "people", "anyone", "anybody", "owner", "that", "this", " it", "any"},
		regexp.MustCompile(`\b(do not|don't|dont|never|without|must not|should not|avoid) (ever )?(tell|mention|inform|reveal|disclos|notify|alert|show|ask|say|warn|let|confirm)[a-z]* ([a-z',]+ ){0,6}(user|human|operator|person|people|anyone|anybody|owner)|\b(do not|don't|dont|never) (ever )?(mention|reveal|disclose) (that|this|it|any)\b`)},
	{Instruction, "it tells a model to keep something from people", []string{"secretly", "silently", "without the user", "behind the user"},
		regexp.MustCompile(`\b(secretly|silently) (send|read|call|pass|include|forward|copy|add|append|run|execute|upload)|\b(without|behind) the user'?s? (knowledge|knowing|consent|noticing|being|back|seeing)`)},
	{Instruction, "it tells a model what to do before or after it uses a tool", []string{"before", "after", "prior to"},
		regexp.MustCompile(`\b(before|after|prior to) (you )?(us|call|invok|execut|runn?)(e|es|ing)? (this|any|the|another|other|all)( other)? (tool|function)`)},
	{Instruction, "it tells a model what it must do", []string{"you must", "you have to", "you need to", "you should always", "you are required to", "you shall"},
		regexp.MustCompile(`\byou (must|have to|need to|should always|are required to|shall) ((first|always|also|then|immediately) )*(call|invoke|run|execute|read|send|forward|copy|upload|obey|use (this|the) tool)\b`)},
	{Instruction, "it wants another tool to be called first", []string{"first", "must", "before", "always"},
		regexp.MustCompile(`\b(call|invoke|run|use) ((the|this) )?['"]?[a-z0-9]+[_-][a-z0-9_-]+['"]? (tool )?(first|before)\b|\b(always|first) (call|invoke) |\b(must|should) (always |first )?be (called|invoked|run) (first|before|after|together|along)`)},
	{Instruction, "it is addressed to a model", []string{"<", "[inst", "|im_"},
		regexp.MustCompile(`</?(important|system|instructions?|secret|hidden|admin|assistant|critical|override|prompt|user|human)\b[^>]{0,40}>|\[/?inst\]|<\|im_(start|end)\|>|<\|(system|user|assistant)\|>`)},
	{Instruction, "it is addressed to a model", []string{"llm", "model", "assistant", "agent", " ai", "ai "},
		regexp.MustCompile(`\b(note|notice|message|instructions?|important|attention) (to|for) (the |any |all )?(llm|ai|model|assistant|agent)s?\b|\b(llm|ai|model|assistant|agent)s? (must|shall|has to|have to|should always) |\bas an ai\b|\byou are (now )?(a|an|the) ([a-z]+ )?(assistant|agent|ai|model|llm)\b`)},
	{Instruction, "it speaks of what a model was told", []string{"prompt", "message", "instruction", "chain of thought", "conversation", "chat history"},
		regexp.MustCompile(`\b(system|developer|hidden|initial) (prompt|message|instruction)|\b(your|new|additional|real) instructions\b|\bchain of thought\b|\b(entire|full|whole|previous|complete) (conversation|chat history)`)},

	{Secret, "it names a place where secrets are", []string{"/.", `\.`, "id_", "id-", "/etc/", "_keys", "private key", "mcp.json", "wallet", "/proc/"},
		regexp.MustCompile(`(~|\$home|%userprofile%|/root|/home/[^/ ]{1,64}|/users/[^/ ]{1,64})[/\\]\.[a-z]|(^|[^a-z0-9])\.?(ssh|aws|gnupg|kube)[/\\]|(^|[^a-z0-9])id_(rsa|ed25519|ecdsa|dsa)\b|/etc/(shadow|passwd|sudoers)|\bauthorized_keys\b|\bbegin ([a-z]+ )?private key|\bmcp\.json\b|\bwallet\.dat\b|/proc/self/environ`)},
	{Secret, "it asks for a secret", []string{"password", "passphrase", "secret", "credential", "api key", "api-key", "token", "private key", "seed phrase", "ssh key", "cookie", "environment variable"},
		regexp.MustCompile(`\b(provide|include|pass|send|give|enter|paste|read|attach|supply|share|reveal|return|output|forward|append|upload|put|need|require|use|with) ([a-z]+ ){0,4}(your|user's|users'|their|my|any|all|the user'?s?|found|current) ([a-z]+ ){0,3}(password|passphrase|secret|credential|api[ -]key|(access|auth|bearer|session|api) token|private key|seed phrase|ssh key|cookie|environment variable)|\b(current |the )?user's (password|passphrase|secret|credential|private key|seed phrase|ssh key)`)},

	{Approval, "it claims that it is safe or approved", []string{"safe", "approv", "trust", "verified", "authori", "certified", "harmless", "allow", "whitelist"},
		regexp.MustCompile(`\b(this|the) (tool|server|function|operation|call|action|command) (is|was|has been|are) ([a-z-]+ ){0,2}(safe|(pre-?)?approved|trusted|verified|(pre-?)?authori[sz]ed|certified|harmless|whitelisted)\b|\b(this|the) (tool|server|function|operation|call|action|command) (is|was|has been|are) ([a-z-]+ ){0,2}allowed ?([.,;:!)]|$)|\balways (be )?(allow|approv|accept|trust|permit)|\b(pre|auto)-?approved?\b|\bsafe to (allow|approve|auto|call without|run without|use without)|\b(already|been) (pre-?)?(approved|authori[sz]ed|vetted|whitelisted) by\b|\b(approved|certified|verified|vetted) by (the |your )?(admin|security|operator|user|anthropic|openai|google|microsoft)`)},
	{Approval, "it claims that it needs no approval", []string{"approval", "confirm", "permission", "consent", "review"},
		regexp.MustCompile(`\b(no|without|skip|bypass|(not|never) (require|need|ask for)) ([a-z]+ ){0,3}(approval|confirmation|permission|consent|human review)`)},
}

// links are addresses that carry something along.
var links = regexp.MustCompile(`(?i)\bhttps?://[^\s"'<>)\]}?]+\?[^\s"'<>)\]}]|\bdata:[a-z]+/[a-z0-9.+-]{1,60}[;,]`)

// maxWord is how long a word of an encoding's characters may be, in bytes.
const maxWord = 96

// blob returns where encoded text begins that people cannot read, or -1: a long word of base64 with
// small and capital letters and digits, or of hexadecimal digits.
func blob(text string) int {
	for at := 0; at < len(text); at++ {
		begin := at
		for at < len(text) && (alphanumeric(text[at]) || strings.IndexByte("+/_=-", text[at]) >= 0) {
			at++
		}
		if at-begin <= maxWord {
			continue
		}
		word := text[begin:at]
		if strings.ContainsFunc(word, unicode.IsDigit) && strings.ContainsFunc(word, unicode.IsUpper) && strings.ContainsFunc(word, unicode.IsLower) ||
			strings.Trim(word, "0123456789abcdefABCDEF") == "" {
			return begin
		}
	}
	return -1
}
