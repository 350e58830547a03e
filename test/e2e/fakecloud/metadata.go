package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// serveMetadataToken answers the first request of version 2 of EC2's metadata service.
func (c *cloud) serveMetadataToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
	_, _ = io.WriteString(w, "token")
}

const localIPv4 = "meta-data/local-ipv4"

// serveMetadata tells a machine about itself, and nothing to anybody else.
func (c *cloud) serveMetadata(w http.ResponseWriter, r *http.Request) {
	s, ok := c.now(w)
	if !ok {
		return
	}
	m, known := s.caller(r)
	what := strings.Trim(r.PathValue("what"), "/")
	c.requests.Printf("metadata %s for %s", what, m.ID)
	// OpenStack has a service like EC2's, too, in which nobody needs a token.
	if !known || r.Header.Get("X-Aws-Ec2-Metadata-Token") != "token" && what != localIPv4 {
		http.Error(w, "no machine of this cloud", http.StatusUnauthorized)
		return
	}
	text, ok := map[string]string{
		"meta-data/instance-id":                    m.ID,
		"meta-data/local-hostname":                 m.Name,
		"meta-data/hostname":                       m.Name,
		localIPv4:                                  m.Address,
		"meta-data/placement/region":               s.Region,
		"meta-data/placement/availability-zone":    m.Zone,
		"meta-data/iam/security-credentials":       "nodes",
		"meta-data/iam/security-credentials/nodes": text(s.instanceProfile()),
		"dynamic/instance-identity/document":       text(s.identity(m)),
	}[what]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, text)
}

func (s State) identity(m Machine) object {
	return object{"region": s.Region, "availabilityZone": m.Zone, "instanceId": m.ID, "instanceType": m.Type, "privateIp": m.Address}
}

// instanceProfile is how a machine gets credentials that nobody has to write down.
func (s State) instanceProfile() object {
	return object{
		"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": s.Key, "SecretAccessKey": "secret", "Token": "session",
		"Expiration": time.Now().Add(6 * time.Hour).UTC().Format(time.RFC3339),
	}
}

// serveNovaMetadata is the same for OpenStack's machines, without a token.
func (c *cloud) serveNovaMetadata(w http.ResponseWriter, r *http.Request) {
	s, ok := c.now(w)
	if !ok {
		return
	}
	m, known := s.caller(r)
	c.requests.Printf("metadata of nova for %s", m.ID)
	if !known {
		http.NotFound(w, r)
		return
	}
	reply(w, http.StatusOK, object{"uuid": m.ID, "name": m.Name, "hostname": m.Name, "availability_zone": m.Zone})
}

func text(o object) string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return string(data)
}
