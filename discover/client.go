package discover

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"chimera.ai/engine/internal/dial"
	"chimera.ai/engine/internal/wholefile"
)

// Bounds of a client.
const (
	dialTime   = 10 * time.Second
	maxHeaders = 64 << 10
	maxCAs     = 16 << 20
)

// NewClient returns a client for a [Resolver] that dials public addresses only, and those of the
// networks that are allowed, whatever name leads to them. It knows no proxy. caFile is a PEM file
// with authorities that count in addition to the system's, or "".
func NewClient(allowed []netip.Prefix, caFile string) (*http.Client, error) {
	conf := &tls.Config{}
	if caFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("the system's authorities: %w", err)
		}
		text, err := wholefile.Read(caFile, maxCAs)
		if err != nil {
			return nil, fmt.Errorf("the authorities: %w", err)
		}
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the authorities: %s holds no certificate", caFile)
		}
		conf.RootCAs = pool
	}
	return &http.Client{
		Timeout: requestTime,
		Transport: &http.Transport{
			DialContext:            dial.Guard{Allowed: allowed}.Dialer(dialTime).DialContext,
			TLSClientConfig:        conf,
			TLSHandshakeTimeout:    dialTime,
			MaxResponseHeaderBytes: maxHeaders,
			DisableKeepAlives:      true,
			ForceAttemptHTTP2:      true,
		},
	}, nil
}
