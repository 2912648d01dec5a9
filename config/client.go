package config

import (
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// Client gives the options of a Temporal client: address, namespace,
// credentials, TLS and headers, as this configuration and Temporal's own
// conventions say. It resolves the reference of the API key, and no other. An
// empty address is left for the caller to fill.
func (c Config) Client() (client.Options, error) {
	profile := c.profile
	profile.Address, profile.Namespace = c.Temporal.Address, c.Temporal.Namespace
	// Of what Temporal's own file or variables hold, nothing is a reference.
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
