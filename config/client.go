package config

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// Client returns the options of a Temporal client: address, namespace,
// credentials, TLS and headers, as this configuration and Temporal's own
// conventions say. It resolves the reference to the API key, and no other. An empty
// address is for the caller to fill in.
func (c Config) Client() (client.Options, error) {
	profile := c.profile
	profile.Address, profile.Namespace = c.Temporal.Address, c.Temporal.Namespace
	// Temporal's own file and variables hold no references.
	if c.Temporal.APIKey != "" && profile.APIKey == c.Temporal.APIKey.Reveal() {
		open, err := c.resolver().resolve(c.Temporal.APIKey)
		if err != nil {
			return client.Options{}, fmt.Errorf("resolving temporal.api_key: %w", err)
		}
		profile.APIKey = open.Reveal()
	}
	options, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, fmt.Errorf("preparing the connection to Temporal: %w", err)
	}
	return options, nil
}

// TemporalCertificates returns the files with the authorities of Temporal's server and with the certificate
// of its clients, as this configuration and Temporal's own conventions name them.
func (c Config) TemporalCertificates() []string {
	all := []string{c.Temporal.TLS.CAFile, c.Temporal.TLS.CertFile}
	if c.profile.TLS != nil {
		all = append(all, c.profile.TLS.ServerCACertPath, c.profile.TLS.ClientCertPath)
	}
	return slices.DeleteFunc(all, func(file string) bool { return file == "" })
}
