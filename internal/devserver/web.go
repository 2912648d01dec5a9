package devserver

import "net/url"

// WebRun is the address of a run's page on the Temporal web pages at ui, or ""
// if ui is "". Without a run id it is the latest run of the workflow.
func WebRun(ui, namespace, workflow, run string) string {
	if ui == "" {
		return ""
	}
	page := ui + "/namespaces/" + url.PathEscape(namespace) + "/workflows/" + url.PathEscape(workflow)
	if run != "" {
		page += "/" + url.PathEscape(run) + "/history"
	}
	return page
}
