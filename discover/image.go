package discover

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// manifests are the media types of images and of their indexes.
const manifests = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, " +
	"application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

var (
	imagePart = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$`)
	imageTag  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	imageHost = regexp.MustCompile(`^[a-z0-9.-]+(?::[0-9]{1,5})?$`)
	challenge = regexp.MustCompile(`([a-z]+)="([^"]*)"`)
)

// image returns the digest of an image's manifest, computed from the manifest itself.
func (r Resolver) image(ctx context.Context, u Unpinned) (string, error) {
	host, name, ok := strings.Cut(u.Package, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, name = "docker.io", u.Package
		if !ok {
			name = "library/" + name
		}
	}
	if host == "docker.io" || host == "index.docker.io" {
		host = "registry-1.docker.io"
	}
	tag := cmp.Or(u.Have, "latest")
	if !imageHost.MatchString(host) || !imagePart.MatchString(name) || !imageTag.MatchString(tag) {
		return "", errMalformed
	}
	address := "https://" + host + "/v2/" + name + "/manifests/" + tag
	raw, header, err := r.get(ctx, address, manifests, "")
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusUnauthorized {
		var token string
		if token, err = r.token(ctx, host, name, status.header.Get("WWW-Authenticate")); err != nil {
			return "", err
		}
		raw, header, err = r.get(ctx, address, manifests, "Bearer "+token)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if said := header.Get("Docker-Content-Digest"); said != "" && said != digest {
		return "", errors.New("the manifest does not have the digest that the registry says it has")
	}
	return digest, nil
}

// token gets the token with which anybody may read an image, from the registry's host or a
// neighbour of it in the same domain.
func (r Resolver) token(ctx context.Context, host, name, header string) (string, error) {
	params := map[string]string{}
	if rest, ok := strings.CutPrefix(header, "Bearer "); ok {
		for _, m := range challenge.FindAllStringSubmatch(rest, -1) {
			params[m[1]] = m[2]
		}
	}
	realm, err := url.Parse(params["realm"])
	if err != nil || realm.Host == "" || !neighbours(host, realm.Host) {
		return "", fmt.Errorf("%s wants credentials that it does not hand out itself", quote(host))
	}
	realm.RawQuery = url.Values{"service": {params["service"]}, "scope": {"repository:" + name + ":pull"}}.Encode()
	raw, _, err := r.get(ctx, realm.String(), "application/json", "")
	if err != nil {
		return "", err
	}
	answer, err := decode(raw)
	if err != nil {
		return "", err
	}
	for _, key := range []string{"token", "access_token"} {
		if token, _ := answer[key].(string); token != "" {
			return token, nil
		}
	}
	return "", fmt.Errorf("%s hands out no token", quote(realm.Host))
}

// neighbours reports whether two hosts are equal, one is the domain of the other, or both
// are in one domain.
func neighbours(a, b string) bool {
	domain := func(host string) string {
		if _, rest, ok := strings.Cut(host, "."); ok && strings.Contains(rest, ".") {
			return rest
		}
		return host
	}
	return a == b || domain(a) == b || a == domain(b) || domain(a) == domain(b)
}
