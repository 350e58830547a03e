package v1alpha1

import (
	"slices"
	"strings"
	"testing"
)

func TestParseShareNamespaces(t *testing.T) {
	for _, tt := range []struct {
		text, wrong string
		want        []string
	}{
		{"", "", nil},
		{"  ", "", nil},
		{"shop", "", []string{"shop"}},
		{"shop, mail ,shop", "", []string{"shop", "mail"}},
		{"*", "list the namespaces by name", nil},
		{"shop,*", "list the namespaces by name", nil},
		{"team-*", `"team-*" is no name of a namespace`, nil},
		{"shop,", "empty name", nil},
		{",shop", "empty name", nil},
		{"shop mail", `"shop mail" is no name of a namespace`, nil},
		{"shop;mail", "is no name of a namespace", nil},
		{"Shop", "is no name of a namespace", nil},
		{"shop/web", "is no name of a namespace", nil},
		{`["shop"]`, "is no name of a namespace", nil},
		{"shop\nmail", "is no name of a namespace", nil},
		{strings.Repeat("a", 64), "is no name of a namespace", nil},
		{strings.Repeat("a,", 64) + "a", "65 names, and at most 64 are read", nil},
		{strings.Repeat("a,", 63) + "b", "", []string{"a", "b"}},
		{strings.Repeat("shop,", 1000) + "shop", "at most 4096 are read", nil},
	} {
		got, err := ParseShareNamespaces(tt.text)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%.40q: got %q, %v; want %q, %q", tt.text, got, err, tt.want, tt.wrong)
		}
	}
}
