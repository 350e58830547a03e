package main

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const ec2Namespace = "http://ec2.amazonaws.com/doc/2016-11-15/"

// serveEC2 answers the query protocol: a form with an Action comes in, XML goes out.
func (c *cloud) serveEC2(w http.ResponseWriter, r *http.Request) {
	s, ok := c.now(w)
	if !ok {
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	action := r.PostForm.Get("Action")
	c.requests.Printf("ec2 %s %v", action, r.PostForm)
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "Credential="+s.Key+"/"):
		refuse(w, http.StatusUnauthorized, "AuthFailure", "AWS was not able to validate the provided access credentials")
	case s.Denied:
		refuse(w, http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation. ec2:"+action)
	case action == "DescribeInstances":
		s.describeInstances(w, r.PostForm)
	case action == "DescribeAvailabilityZones":
		answer(w, action, s.zones())
	case action == "DescribeInstanceTopology":
		answer(w, action, none{}) // small instance types have none
	default:
		refuse(w, http.StatusBadRequest, "InvalidAction", fmt.Sprintf("The action %s is not valid for this web service.", action))
	}
}

// none is a set of nothing.
type none struct {
	Items []string `xml:"instanceSet>item"`
}

type zoneSet struct {
	Items []zoneItem `xml:"availabilityZoneInfo>item"`
}

type zoneItem struct {
	Name   string `xml:"zoneName"`
	ID     string `xml:"zoneId"`
	Type   string `xml:"zoneType"`
	Region string `xml:"regionName"`
}

func (s State) zones() zoneSet {
	var set zoneSet
	for _, m := range s.Machines {
		item := zoneItem{Name: m.Zone, ID: "id-" + m.Zone, Type: "availability-zone", Region: s.Region}
		if !slices.Contains(set.Items, item) {
			set.Items = append(set.Items, item)
		}
	}
	return set
}

type reservations struct {
	Instances []instanceItem `xml:"reservationSet>item>instancesSet>item"`
}

type instanceItem struct {
	ID         string          `xml:"instanceId"`
	State      string          `xml:"instanceState>name"`
	DNSName    string          `xml:"privateDnsName"`
	Type       string          `xml:"instanceType"`
	Zone       string          `xml:"placement>availabilityZone"`
	Address    string          `xml:"privateIpAddress"`
	VPC        string          `xml:"vpcId"`
	Subnet     string          `xml:"subnetId"`
	Interfaces []interfaceItem `xml:"networkInterfaceSet>item"`
	Tags       []tagItem       `xml:"tagSet>item"`
}

type interfaceItem struct {
	Status    string   `xml:"status"`
	Device    int      `xml:"attachment>deviceIndex"`
	Addresses []string `xml:"privateIpAddressesSet>item>privateIpAddress"`
}

type tagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func (s State) describeInstances(w http.ResponseWriter, form url.Values) {
	var found reservations
	known := map[string]bool{}
	for _, m := range s.Machines {
		known[m.ID] = true
		if m.matches(form) {
			found.Instances = append(found.Instances, m.instance())
		}
	}
	for _, id := range indexed(form, "InstanceId") {
		if !known[id] {
			refuse(w, http.StatusBadRequest, "InvalidInstanceID.NotFound", fmt.Sprintf("The instance ID '%s' does not exist", id))
			return
		}
	}
	answer(w, "DescribeInstances", found)
}

// matches applies the instance IDs and filters of a request. A filter that is not known here matches nothing.
func (m Machine) matches(form url.Values) bool {
	if ids := indexed(form, "InstanceId"); len(ids) > 0 && !slices.Contains(ids, m.ID) {
		return false
	}
	for i := 1; form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		prefix := fmt.Sprintf("Filter.%d.", i)
		got := map[string]string{"private-dns-name": m.Name, "instance-state-name": m.State, "instance-id": m.ID}[form.Get(prefix+"Name")]
		if got == "" || !slices.Contains(indexed(form, prefix+"Value"), got) {
			return false
		}
	}
	return true
}

func (m Machine) instance() instanceItem {
	item := instanceItem{
		ID: m.ID, State: m.State, DNSName: m.Name, Type: m.Type, Zone: m.Zone, Address: m.Address, VPC: "vpc-1", Subnet: "subnet-1",
		Tags: []tagItem{{Key: "kubernetes.io/cluster/" + m.Cluster, Value: "owned"}},
	}
	if m.State == "terminated" { // EC2 shows it for an hour, without its name and addresses
		item.DNSName, item.Address = "", ""
		return item
	}
	item.Interfaces = []interfaceItem{{Status: "in-use", Addresses: []string{m.Address}}}
	return item
}

// indexed collects NAME.1, NAME.2 and so on.
func indexed(form url.Values, name string) []string {
	var values []string
	for i := 1; form.Has(fmt.Sprintf("%s.%d", name, i)); i++ {
		values = append(values, form.Get(fmt.Sprintf("%s.%d", name, i)))
	}
	return values
}

// answer wraps content into the element that is named after the action.
func answer(w http.ResponseWriter, action string, content any) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	start := xml.StartElement{Name: xml.Name{Space: ec2Namespace, Local: action + "Response"}}
	if err := xml.NewEncoder(w).EncodeElement(content, start); err != nil {
		panic(http.ErrAbortHandler) // the client sees a connection that breaks, not half an answer
	}
}

type refusal struct {
	XMLName xml.Name `xml:"Response"`
	Code    string   `xml:"Errors>Error>Code"`
	Message string   `xml:"Errors>Error>Message"`
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(status)
	if err := xml.NewEncoder(w).Encode(refusal{Code: code, Message: message}); err != nil {
		panic(http.ErrAbortHandler)
	}
}
