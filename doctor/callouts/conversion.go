package callouts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// conversion is a webhook that makes one version of an object of another.
type conversion struct {
	Callout
	// path is a list whose objects are converted before they are answered. Empty: there is none.
	path string
}

// definition is what counts of a CustomResourceDefinition.
type definition struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name    string `json:"name"`
			Served  bool   `json:"served"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
		Conversion struct {
			Strategy string `json:"strategy"`
			Webhook  struct {
				ClientConfig struct {
					Service *struct {
						Namespace string `json:"namespace"`
						Name      string `json:"name"`
						Port      *int32 `json:"port"`
					} `json:"service"`
				} `json:"clientConfig"`
			} `json:"webhook"`
		} `json:"conversion"`
	} `json:"spec"`
	Status struct {
		StoredVersions []string `json:"storedVersions"`
	} `json:"status"`
}

// definitionsPage is how many are read at once: some have schemas of 500 kB. mostDefinitions bounds all of them.
const definitionsPage, mostDefinitions = 100, 2_000

// conversionTimeout is the API server's own (k8s.io/apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go).
const conversionTimeout = 30

// Definitions reads all CustomResourceDefinitions, and keeps those whose objects a webhook converts. It is raw: schemas are nothing
// that has to be decoded.
func (c *Collector) Definitions(ctx context.Context, client rest.Interface) error {
	next := ""
	for read := 0; read < mostDefinitions; read += definitionsPage {
		request := client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
			Param("limit", strconv.Itoa(definitionsPage)).SetHeader("Accept", "application/json")
		if next != "" {
			request = request.Param("continue", next)
		}
		data, err := request.DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []definition `json:"items"`
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return fmt.Errorf("read the list of CustomResourceDefinitions: %w", err)
		}
		for i := range page.Items {
			c.definition(&page.Items[i])
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
	return nil
}

// definition keeps one of which some objects may have to be converted: it has several versions.
func (c *Collector) definition(d *definition) {
	var versions []string
	path := ""
	for _, v := range d.Spec.Versions {
		if v.Served || v.Storage || slices.Contains(d.Status.StoredVersions, v.Name) {
			versions = append(versions, v.Name)
		}
		if v.Served && !v.Storage && path == "" {
			path = "/apis/" + d.Spec.Group + "/" + v.Name + "/" + d.Spec.Names.Plural
		}
	}
	if d.Spec.Conversion.Strategy != "Webhook" || len(versions) < 2 {
		return
	}
	called := conversion{path: path, Callout: Callout{
		Object: "CustomResourceDefinition/" + d.Metadata.Name, Guards: []string{d.Metadata.Name},
		Closed: true, Ready: -1, Timeout: conversionTimeout,
	}}
	if s := d.Spec.Conversion.Webhook.ClientConfig.Service; s != nil {
		called.Namespace, called.Service, called.Port = s.Namespace, s.Name, defaultPort
		if s.Port != nil {
			called.Port = *s.Port
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conversions = append(c.conversions, called)
}
