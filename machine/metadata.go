package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/jsonpath"

	"github.com/ccmadm/ccmadm/templates"
)

// metadataTimeout bounds all questions together: where there is no such service, the address may swallow packets.
const metadataTimeout = 3 * time.Second

// AskMetadata returns what the cloud's metadata service says about this machine, by the profile's names. A value that
// the service does not have is empty.
func AskMetadata(ctx context.Context, m *templates.Metadata) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	ask := metadataClient{http: &http.Client{Transport: &http.Transport{}}, base: m.URL} // never through a proxy
	defer ask.http.CloseIdleConnections()
	headers := maps.Clone(m.Headers)
	if m.Token != nil {
		token, err := ask.request(ctx, http.MethodPut, m.Token.Path, m.Token.Headers)
		if err != nil {
			return nil, fmt.Errorf("ask the metadata service for a token: %w", err)
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[m.Token.Header] = token
	}
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.Values)) {
		path, keys, isJSON := strings.Cut(m.Values[name], "#")
		body, err := ask.request(ctx, http.MethodGet, path, headers)
		if errors.Is(err, errNoSuchValue) {
			values[name] = ""
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ask the metadata service for %s: %w", name, err)
		}
		if isJSON {
			if body, err = pick(body, keys); err != nil {
				return nil, fmt.Errorf("ask the metadata service for %s: %w", name, err)
			}
		}
		values[name] = strings.TrimSpace(body)
	}
	return values, nil
}

var errNoSuchValue = errors.New("there is no such value")

type metadataClient struct {
	http *http.Client
	base string
}

func (c metadataClient) request(ctx context.Context, method, path string, headers map[string]string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return "", err
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("no answer from %s within %s", c.base, metadataTimeout)
	}
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	if resp.StatusCode == http.StatusNotFound {
		return "", errNoSuchValue
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s: %s", method, req.URL, resp.Status)
	}
	const enough = 1 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, enough))
	return string(body), err
}

// pick follows a path of keys into a JSON document. What is not there is empty; what cannot be followed is an error.
func pick(body, path string) (string, error) {
	var document any
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		return "", fmt.Errorf("the answer is no JSON: %w", err)
	}
	j := jsonpath.New(path).AllowMissingKeys(true)
	if err := j.Parse("{." + path + "}"); err != nil {
		return "", fmt.Errorf("the path %s: %w", path, err)
	}
	var text strings.Builder
	if err := j.Execute(&text, document); err != nil {
		return "", fmt.Errorf("the answer has no %s: %w", path, err)
	}
	return text.String(), nil
}
