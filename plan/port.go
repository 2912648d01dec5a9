package plan

// PortValue returns the value of an output port of a node, by the decoded output of that. It reports
// false if the output has no such port.
func PortValue(output any, port string) (any, bool) {
	switch port {
	case WholePort:
		return output, true
	case DonePort:
		return nil, true
	}
	object, ok := output.(map[string]any)
	if !ok {
		return nil, false
	}
	v, ok := object[port]
	return v, ok
}
