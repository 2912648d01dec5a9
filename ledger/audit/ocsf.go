package audit

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// ocsfVersion is the version of the Open Cybersecurity Schema Framework that
// events are written in.
const ocsfVersion = "1.8.0"

// event is a CloudEvents 1.0 event.
type event struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject"`
	Time        string `json:"time"`
	ContentType string `json:"datacontenttype"`
	DataSchema  string `json:"dataschema"`
	// Sequence is CloudEvents' extension of that name.
	Sequence string `json:"sequence"`
	Data     ocsf   `json:"data"`
}

// ocsf is an event of one of three classes.
type ocsf struct {
	ActivityID   int    `json:"activity_id"`
	ActivityName string `json:"activity_name"`
	CategoryUID  int    `json:"category_uid"`
	ClassUID     int    `json:"class_uid"`
	ClassName    string `json:"class_name"`
	TypeUID      int    `json:"type_uid"`
	// Time is in milliseconds since 1970.
	Time       int64    `json:"time"`
	SeverityID int      `json:"severity_id"`
	StatusID   int      `json:"status_id"`
	StatusCode string   `json:"status_code,omitempty"`
	Message    string   `json:"message"`
	Metadata   metadata `json:"metadata"`

	Actor  *actor    `json:"actor,omitempty"`
	App    *product  `json:"app,omitempty"`
	API    *api      `json:"api,omitempty"`
	Source *endpoint `json:"src_endpoint,omitempty"`
	Entity *entity   `json:"entity,omitempty"`

	Unmapped unmapped `json:"unmapped"`
}

type (
	metadata struct {
		Version      string  `json:"version"`
		Product      product `json:"product"`
		UID          string  `json:"uid"`
		EventCode    string  `json:"event_code"`
		LogName      string  `json:"log_name"`
		Sequence     int64   `json:"sequence"`
		Correlation  string  `json:"correlation_uid"`
		OriginalTime string  `json:"original_time"`
	}
	product struct {
		Name    string `json:"name"`
		Vendor  string `json:"vendor_name,omitempty"`
		UID     string `json:"uid,omitempty"`
		Version string `json:"version,omitempty"`
	}
	actor struct {
		AppName string `json:"app_name"`
		User    *user  `json:"user,omitempty"`
	}
	user struct {
		UID    string `json:"uid"`
		Type   string `json:"type"`
		TypeID int    `json:"type_id"`
	}
	api struct {
		Operation string `json:"operation"`
	}
	endpoint struct {
		Service string `json:"svc_name"`
		UID     string `json:"uid"`
	}
	entity struct {
		UID    string `json:"uid"`
		Type   string `json:"type"`
		TypeID int    `json:"type_id"`
	}
	// unmapped are the fields of an entry for which OCSF has no place.
	unmapped struct {
		Chain    string            `json:"chain"`
		N        int64             `json:"n"`
		Key      string            `json:"key"`
		Class    string            `json:"retention_class"`
		Agent    string            `json:"agent,omitempty"`
		Plan     string            `json:"plan,omitempty"`
		Run      string            `json:"run,omitempty"`
		Node     string            `json:"node,omitempty"`
		Visit    int               `json:"visit,omitempty"`
		Element  int               `json:"element,omitempty"`
		Task     string            `json:"task,omitempty"`
		Refs     map[string]string `json:"refs,omitempty"`
		Body     string            `json:"body,omitempty"`
		Decision string            `json:"decision,omitempty"`
		State    string            `json:"state,omitempty"`
		Status   string            `json:"status,omitempty"`
	}
)

// terms are what an event says out of a body: names of closed sets, and the name
// of an operation.
type terms struct{ State, Operation, Decision, Status, Error string }

// class is a class of OCSF.
type class struct {
	category, uid int
	name, page    string
}

var (
	entityManagement = class{3, 3004, "Entity Management", "entity_management"}
	lifecycle        = class{6, 6002, "Application Lifecycle", "application_lifecycle"}
	apiActivity      = class{6, 6003, "API Activity", "api_activity"}
)

// The values of OCSF that stand here.
const (
	activityOther = 99
	typeOther     = 99

	statusUnknown, statusSuccess, statusFailure = 0, 1, 2

	severityInformational, severityLow, severityMedium = 1, 2, 3
)

// shape is what becomes of a kind.
type shape struct {
	class    class
	activity int
	name     string
	// entity is the type of the managed entity, for entityManagement.
	entity string
}

var shapes = map[ledger.Kind]shape{
	ledger.RunOpened: {lifecycle, 3, "Start", ""},
	ledger.RunClosed: {lifecycle, 4, "Stop", ""},

	ledger.RunPaused:  {lifecycle, activityOther, "Pause", ""},
	ledger.RunResumed: {lifecycle, activityOther, "Resume", ""},

	ledger.NodeSucceeded:       {apiActivity, activityOther, "Call", ""},
	ledger.NodeFailed:          {apiActivity, activityOther, "Call", ""},
	ledger.NodeSkipped:         {apiActivity, activityOther, "Skip", ""},
	ledger.InvocationPermitted: {apiActivity, activityOther, "Permit", ""},
	ledger.InvocationCalling:   {apiActivity, activityOther, "Call", ""},
	ledger.InvocationReleased:  {apiActivity, activityOther, "Release", ""},
	ledger.InvocationSettled:   {apiActivity, activityOther, "Settle", ""},
	ledger.InvocationUnknown:   {apiActivity, activityOther, "Lose sight", ""},
	ledger.CheckMade:           {apiActivity, activityOther, "Check", ""},

	ledger.AuthorityStated:    {entityManagement, 3, "Update", "Authority"},
	ledger.PlanPublished:      {entityManagement, 1, "Create", "Plan"},
	ledger.TaskDrafted:        {entityManagement, 1, "Create", "Task"},
	ledger.TaskSigned:         {entityManagement, 3, "Update", "Task"},
	ledger.TaskExecuted:       {entityManagement, 3, "Update", "Task"},
	ledger.TaskClosed:         {entityManagement, 3, "Update", "Task"},
	ledger.BarrierOpened:      {entityManagement, 1, "Create", "Barrier"},
	ledger.BarrierReminded:    {entityManagement, 3, "Update", "Barrier"},
	ledger.BarrierEscalated:   {entityManagement, 3, "Update", "Barrier"},
	ledger.BarrierClosed:      {entityManagement, 3, "Update", "Barrier"},
	ledger.DecisionMade:       {entityManagement, 1, "Create", "Decision"},
	ledger.ApprovalAccepted:   {entityManagement, 1, "Create", "Approval"},
	ledger.ApprovalRefused:    {entityManagement, 1, "Create", "Approval"},
	ledger.ApprovalConsumed:   {entityManagement, 3, "Update", "Approval"},
	ledger.BudgetSet:          {entityManagement, 3, "Update", "Budget"},
	ledger.HoldOpened:         {entityManagement, 1, "Create", "Hold"},
	ledger.HoldRunning:        {entityManagement, 10, "Activate", "Hold"},
	ledger.HoldPosted:         {entityManagement, 3, "Update", "Hold"},
	ledger.HoldVoided:         {entityManagement, 4, "Delete", "Hold"},
	ledger.HoldExpired:        {entityManagement, 4, "Delete", "Hold"},
	ledger.AgentAdded:         {entityManagement, 1, "Create", "Agent"},
	ledger.SignerEnrolled:     {entityManagement, 6, "Enroll", "Signer"},
	ledger.SignerRevoked:      {entityManagement, 7, "Unenroll", "Signer"},
	ledger.ToolRegistered:     {entityManagement, 1, "Create", "Tool"},
	ledger.ToolTrusted:        {entityManagement, 3, "Update", "Tool"},
	ledger.HypothesisStated:   {entityManagement, 1, "Create", "Hypothesis"},
	ledger.HypothesisObserved: {entityManagement, 3, "Update", "Hypothesis"},
	ledger.SnapshotTaken:      {entityManagement, 1, "Create", "Snapshot"},
	ledger.RulesKept:          {entityManagement, 1, "Create", "Rules of decisions"},
	ledger.BodyPruned:         {entityManagement, 4, "Delete", "Bodies of the ledger"},
	ledger.SubjectErased:      {entityManagement, 4, "Delete", "Key of a subject"},
	ledger.LegalHoldPlaced:    {entityManagement, 8, "Enable", "Legal hold"},
	ledger.LegalHoldLifted:    {entityManagement, 9, "Disable", "Legal hold"},
}

// tells reports whether bodies of a kind say terms that events have.
func tells(k ledger.Kind) bool {
	switch k {
	case ledger.RunOpened, ledger.RunClosed, ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped, ledger.DecisionMade, ledger.ToolTrusted:
		return true
	default:
		return false
	}
}

// cloudEvent writes an entry that was decoded as an event.
func cloudEvent(e *ledger.Entry, r ledger.Record, told terms) event {
	s := shapes[e.Kind]
	status, severity := outcome(e.Kind, told)
	o := ocsf{
		ActivityID: s.activity, ActivityName: s.name, CategoryUID: s.class.category, ClassUID: s.class.uid, ClassName: s.class.name,
		TypeUID: s.class.uid*100 + s.activity, Time: e.At.Time().UnixMilli(), SeverityID: severity, StatusID: status, StatusCode: told.Error,
		Message: message(e),
		Metadata: metadata{
			Version: ocsfVersion, Product: product{Name: "Chimera", Vendor: "Chimera"}, UID: r.Hash.String(), EventCode: string(e.Kind),
			LogName: e.Origin, Sequence: r.Index, Correlation: e.Chain, OriginalTime: e.At.String(),
		},
		Unmapped: unmapped{
			Chain: e.Chain, N: e.N, Key: e.Key, Class: string(e.Class), Agent: e.Agent, Plan: e.Plan, Run: e.Run, Node: e.Node,
			Visit: e.Visit, Element: e.Element, Task: e.Task, Body: e.Body, Decision: told.Decision, State: told.State, Status: told.Status,
		},
	}
	for _, ref := range e.Refs {
		if o.Unmapped.Refs == nil {
			o.Unmapped.Refs = map[string]string{}
		}
		o.Unmapped.Refs[ref.Name] = ref.Digest
	}
	who := &actor{AppName: "Chimera"}
	if e.Agent != "" {
		who.User = &user{UID: e.Agent, Type: "Agent", TypeID: typeOther}
	}
	switch s.class {
	case lifecycle:
		o.App = &product{Name: "Chimera plan", UID: e.Plan}
	case apiActivity:
		o.Actor, o.Source = who, &endpoint{Service: "chimera", UID: e.Origin}
		o.API = &api{Operation: cmp.Or(told.Operation, e.Node, string(e.Kind))}
	default:
		o.Actor, o.Entity = who, &entity{UID: model.About(e), Type: s.entity, TypeID: typeOther}
	}
	return event{
		SpecVersion: "1.0", ID: r.Hash.String(), Source: address(e.Origin), Type: "ai.chimera.ledger." + string(e.Kind) + ".v1",
		Subject: e.Chain, Time: e.At.String(), ContentType: "application/json",
		DataSchema: "https://schema.ocsf.io/" + ocsfVersion + "/classes/" + s.class.page, Sequence: fmt.Sprintf("%019d", r.Index), Data: o,
	}
}

// outcome returns status and severity.
func outcome(k ledger.Kind, told terms) (status, severity int) {
	switch {
	case k == ledger.InvocationUnknown:
		return statusUnknown, severityMedium
	case k == ledger.NodeFailed, k == ledger.ApprovalRefused, k == ledger.HoldExpired,
		k == ledger.RunClosed && told.State != "" && told.State != string(ledger.RunSucceeded),
		k == ledger.DecisionMade && told.Decision == "REJECT":
		return statusFailure, severityLow
	case k == ledger.RunClosed && told.State == "", k == ledger.DecisionMade && told.Decision != "APPROVE":
		return statusUnknown, severityInformational // its body is gone, or sealed; or people decide
	}
	return statusSuccess, severityInformational
}

func message(e *ledger.Entry) string {
	switch {
	case e.Node != "":
		return fmt.Sprintf("%s: %s of %s", e.Kind, e.Node, e.Run)
	case e.Run != "":
		return fmt.Sprintf("%s: %s", e.Kind, e.Run)
	}
	return fmt.Sprintf("%s: %s", e.Kind, model.About(e))
}

// address names the log as a URI.
func address(origin string) string {
	parts := strings.Split(origin, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "ledger://" + strings.Join(parts, "/")
}
