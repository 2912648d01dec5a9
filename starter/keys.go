package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/trust/pkcs11"
)

// secretKey returns the private key of --key: of a file in PEM, a reference such as
// ${env:NAME} or ${file:PATH}, or the URI of a key on a token.
func (p *Program) secretKey(ctx context.Context, ref string) (*trust.Key, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	value := config.Secret(ref)
	if value.OnToken() || strings.Contains(ref, "${") {
		key, err := p.openKey(ctx, settings, "--key", value)
		if err == nil && key == nil {
			err = misuse("--key: %s is empty", ref)
		}
		return key, err
	}
	raw, err := wholefile.Read(ref, maxSecretKey)
	if err != nil {
		return nil, misuse("--key: %s", err)
	}
	key, err := trust.ParseKey(raw)
	if err != nil {
		return nil, misuse("--key: %s", err)
	}
	return key, nil
}

// openKey returns the private key that a value names, until Close, or nil if it is "". what
// names the value in errors.
func (p *Program) openKey(ctx context.Context, settings config.Config, what string, value config.Secret) (*trust.Key, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	key, done, err := host.OpenKey(bounded, settings, what, value)
	if err != nil {
		return nil, keyError(bounded, err)
	}
	p.later(done)
	return key, nil
}

// keyError is the failure of a private key that cannot be opened. A token that is away may
// come back.
func keyError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, pkcs11.ErrAway) {
		return unanswered("%s", err)
	}
	return misuse("%s", err)
}

func keyCommand(p *Program, fs *flag.FlagSet) action {
	log := fs.String("log", "", "print the public half of a key on a token as that of the audit log `NAME`")
	return func(ctx context.Context, operands []string) error {
		answer := struct {
			File      string `json:"file"`
			PublicKey string `json:"public_key"`
			KeyID     string `json:"key_id,omitempty"`
			Made      bool   `json:"made"`
		}{File: operands[0]}
		if *log != "" {
			key, err := p.tokenOfLog(ctx, operands[0], *log)
			if err != nil {
				return err
			}
			answer.PublicKey = key.Public()
		} else {
			public, made, err := p.trustKey(ctx, operands[0])
			if err != nil {
				return err
			}
			answer.PublicKey, answer.KeyID, answer.Made = public.text, public.id, made
		}
		if p.json() {
			return p.document(answer)
		}
		p.printf("%s\n", answer.PublicKey)
		return nil
	}
}

// tokenOfLog returns a key on a token as the key of the log of a name.
func (p *Program) tokenOfLog(ctx context.Context, ref, name string) (*ledger.Key, error) {
	value := config.Secret(ref)
	if !value.OnToken() {
		return nil, misuse("--log is for a key on a token, pkcs11:…")
	}
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	return p.openLogKey(ctx, settings, "URI", value, name)
}

// openLogKey returns the log's key on a token, until Close.
func (p *Program) openLogKey(ctx context.Context, settings config.Config, what string, value config.Secret, name string) (*ledger.Key, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	key, done, err := host.OpenLogKey(bounded, settings, what, value, name)
	if err != nil {
		return nil, keyError(bounded, err)
	}
	p.later(done)
	return key, nil
}

// publicHalf is the text of a public key. The key of a log has no id.
type publicHalf struct{ text, id string }

func publicHalfOf(k trust.Public) publicHalf { return publicHalf{k.String(), k.ID()} }

// logSecret begins the secret form of a log key.
const logSecret = "PRIVATE+KEY+"

// trustKey returns the public half of a key, and creates the key if it is that of a file
// that is not there.
func (p *Program) trustKey(ctx context.Context, ref string) (half publicHalf, made bool, err error) {
	if value := config.Secret(ref); value.OnToken() {
		settings, err := p.settings()
		if err != nil {
			return half, false, err
		}
		key, err := p.openKey(ctx, settings, "URI", value)
		if err != nil {
			return half, false, err
		}
		public, err := trust.ParsePublic(key.Public())
		return publicHalfOf(public), false, err
	}
	raw, err := wholefile.Read(ref, maxSecretKey)
	if made = errors.Is(err, fs.ErrNotExist); made {
		if _, raw, err = trust.NewKey(); err == nil {
			err = wholefile.Create(ref, raw)
		}
	}
	if err != nil {
		return half, false, misuse("%s", err)
	}
	if strings.HasPrefix(strings.TrimSpace(string(raw)), logSecret) {
		key, err := ledger.ParseKey(string(raw))
		if err != nil {
			return half, false, misuse("%s: %s", ref, err)
		}
		return publicHalf{text: key.Public()}, false, nil
	}
	if public, err := trust.ParsePublicPEM(raw); err == nil {
		return publicHalfOf(public), made, nil
	}
	key, err := trust.ParseKey(raw)
	if err != nil {
		return half, false, misuse("%s: %s", ref, err)
	}
	public, err := trust.ParsePublic(key.Public())
	if err != nil {
		return half, false, misuse("%s: %s", ref, err)
	}
	return publicHalfOf(public), made, nil
}
