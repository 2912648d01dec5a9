package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/trust/pkcs11"
)

// environ is an environment; it is an [envconfig.EnvLookup].
type environ struct {
	lookup func(string) (string, bool)
	all    func() []string
}

// Environ implements [envconfig.EnvLookup].
func (e environ) Environ() []string { return e.all() }

// LookupEnv implements [envconfig.EnvLookup].
func (e environ) LookupEnv(name string) (string, bool) { return e.lookup(name) }

// variable is the name of a key in the environment.
func variable(name string) string {
	return "CHIMERA_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// environment overrides the configuration with the variables of the scalar keys.
func (l *loader) environment(env environ) {
	var known, sections []string
	for _, k := range keys {
		name := variable(k.name)
		known = append(known, name)
		if section, _, ok := strings.Cut(k.name, "."); ok {
			sections = append(sections, variable(section)+"_")
		}
		raw, ok := env.lookup(name)
		if !ok {
			continue
		}
		if err := l.override(k, raw); err != nil {
			l.report(diag.ConfigValue, diag.Range{}, fmt.Sprintf("the variable %s %s", name, err), k.doc)
			continue
		}
		l.said[k.name] = true
	}
	for _, e := range env.all() {
		name, _, _ := strings.Cut(e, "=")
		if slices.Contains(known, name) || !slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(name, s) }) {
			continue
		}
		l.ds.Add(diag.Diagnostic{
			Code: diag.ConfigKey, Summary: "the variable " + excerpt.Quote(name, 80) + " sets no key",
			Detail:     "Variables that begin like a section of the configuration must name one of its keys.",
			Suggestion: syntax.Nearest(name, known),
		})
	}
}

// override applies one variable. Its error never shows the value of a secret.
func (l *loader) override(k key[Config], raw string) error {
	if problem := unfit(raw); problem != "" {
		return fmt.Errorf("%s", problem)
	}
	var list []string
	switch k.sort {
	case private, secret:
		if k.sort == private && pkcs11.IsURI(raw) {
			if err := checkURI(raw); err != nil {
				return err
			}
		} else if _, err := split(raw); err != nil {
			return fmt.Errorf("is no reference to a secret: %w", err)
		}
	case references:
		if raw == "" {
			break
		}
		for item := range strings.SplitSeq(raw, ",") {
			if _, err := split(item); err != nil {
				return fmt.Errorf("holds no reference to a secret: %w", err)
			}
			list = append(list, strings.TrimSpace(item))
		}
	case choices, texts, paths, networks:
		if raw == "" && (k.sort == paths || k.sort == networks) {
			break // an empty text names none
		}
		for item := range strings.SplitSeq(raw, ",") {
			list = append(list, strings.TrimSpace(item))
		}
	}
	return assign(k, &l.config, raw, list, "")
}

// connection merges Temporal's own conventions with the keys of section temporal:
// chimera.yaml overrides Temporal's profile file, Temporal's environment overrides
// chimera.yaml, and CHIMERA_ variables override all.
func (l *loader) connection(env environ) {
	c := &l.config.Temporal
	file, _ := env.lookup("TEMPORAL_CONFIG_FILE")
	l.config.profileFile = cmp.Or(file, envconfig.DefaultConfigFilePath())
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		ConfigFilePath: l.config.profileFile, ConfigFileProfile: c.Profile, DisableEnv: true, EnvLookup: env,
	})
	if err != nil {
		l.report(diag.ConfigFile, diag.Range{}, "Temporal's own configuration cannot be read", err.Error())
		return
	}
	l.lay(&profile, func(name string) bool { return l.said[name] })
	if err := profile.ApplyEnvVars(env); err != nil {
		l.report(diag.ConfigValue, diag.Range{}, "Temporal's own environment cannot be read", err.Error())
		return
	}
	l.lay(&profile, func(name string) bool { _, ok := env.lookup(variable(name)); return ok })
	c.Address = profile.Address
	if profile.Namespace == "" {
		profile.Namespace = client.DefaultNamespace
	}
	c.Namespace = profile.Namespace
	l.config.profile = profile
}

// lay copies the keys of section temporal for which said is true into a profile.
func (l *loader) lay(p *envconfig.ClientConfigProfile, said func(string) bool) {
	c := l.config.Temporal
	if said("temporal.address") {
		p.Address = c.Address
	}
	if said("temporal.namespace") {
		p.Namespace = c.Namespace
	}
	if said("temporal.api_key") {
		p.APIKey = c.APIKey.Reveal()
	}
	tls := func() *envconfig.ClientConfigTLS {
		if p.TLS == nil {
			p.TLS = new(envconfig.ClientConfigTLS)
		}
		return p.TLS
	}
	if said("temporal.tls.ca_file") {
		tls().ServerCACertPath, tls().ServerCACertData = c.TLS.CAFile, nil
	}
	if said("temporal.tls.cert_file") {
		tls().ClientCertPath, tls().ClientCertData = c.TLS.CertFile, nil
	}
	if said("temporal.tls.key_file") {
		tls().ClientKeyPath, tls().ClientKeyData = c.TLS.KeyFile, nil
	}
	if said("temporal.tls.server_name") {
		tls().ServerName = c.TLS.ServerName
	}
	if said("temporal.tls.enabled") {
		tls().Disabled = !c.TLS.Enabled
	}
}
