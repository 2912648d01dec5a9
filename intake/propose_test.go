package intake_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/intake"
	"chimera.ai/engine/plan"
)

func TestHints(t *testing.T) {
	const ro, de, id, op = `"readOnlyHint":`, `"destructiveHint":`, `"idempotentHint":`, `"openWorldHint":`
	type p = intake.Proposal
	var (
		block    = p{Effect: plan.Irreversible, Status: plan.Block, OpenWorld: true}
		reads    = p{Effect: plan.Pure, Status: plan.AllowAuto}
		readsOut = p{Effect: plan.Pure, Status: plan.AllowAuto, OpenWorld: true}
		writes   = p{Effect: plan.Committing, Status: plan.AllowAuto}
		rewrites = p{Effect: plan.Committing, Status: plan.AllowAuto}
		acts     = p{Effect: plan.Irreversible, Status: plan.ManualReview}
		actsOut  = p{Effect: plan.Irreversible, Status: plan.ManualReview, OpenWorld: true}
	)
	for _, c := range []struct {
		annotations string
		want        p
	}{
		{`{` + ro + `true,` + op + `false}`, reads},
		{`{` + ro + `true,` + op + `false,` + de + `false,` + id + `false}`, reads},
		{`{` + ro + `true}`, readsOut},
		{`{` + ro + `true,` + op + `true,` + id + `true}`, readsOut},
		{`{` + ro + `true,` + op + `null}`, readsOut},
		{`{` + ro + `true,` + de + `true}`, block},
		{`{` + ro + `true,` + de + `true,` + op + `false}`, block},
		{`{` + ro + `"true",` + op + `false}`, block},
		{`{` + ro + `true,` + op + `0}`, block},
		{`true`, block},
		{`[]`, block},
		{`{` + de + `false,` + id + `true,` + op + `false}`, rewrites},
		{`{` + ro + `false,` + de + `false,` + op + `false}`, writes},
		{`{` + de + `false,` + id + `true}`, actsOut},
		{`{` + de + `false}`, actsOut},
		{`{` + op + `false}`, acts},
		{`{` + de + `true,` + op + `false}`, acts},
		{`{` + de + `true,` + op + `false,` + id + `true}`, p{Effect: plan.Irreversible, Status: plan.ManualReview}},
		{`{` + ro + `false}`, actsOut},
		{`{` + id + `true}`, actsOut},
	} {
		for _, name := range []string{"get_file", "delete_file", "x"} {
			raw := named(name, `"annotations":`+c.annotations)
			got, err := intake.Propose(raw, true)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(got.Reason, "."), got.Reason)
			got.Reason = ""
			require.Equal(t, c.want, got, c.annotations)

			got, err = intake.Propose(raw, false)
			require.NoError(t, err)
			got.Reason = ""
			require.Equal(t, actsOut, got, "annotations of a server that is not believed")
		}
	}
}

func TestGuess(t *testing.T) {
	const prefix = `"inputSchema":{"type":"object","properties":`
	guess := func(name, more string) string {
		text := `{"name":"` + name + `"`
		if more != "" {
			text += "," + more
		}
		p, err := intake.Propose(json.RawMessage(text+"}"), true)
		require.NoError(t, err, text)
		require.True(t, p.Guess)
		require.Equal(t, p.Effect == plan.Pure, p.Status == plan.AllowAuto)
		if p.Effect == plan.Pure && p.OpenWorld {
			return "open"
		}
		return string(p.Effect)
	}
	for name, want := range map[string]string{
		"get_file": "pure", "getFile": "pure", "GET-file": "pure", "files.get": "pure", "HTTPGet": "open", "listRuns": "pure", "describe": "pure",
		"fetch": "open", "fetch_page": "open", "web_search": "open", "search_web": "open", "browse": "open", "search_files": "pure", "get_url": "open",
		"get_latest_release": "pure", "list_merge_requests": "pure", "read_graph": "pure", "whoami": "pure", "get_order": "pure", "directory_tree": "pure",
		"create_issue": "committing", "write_file": "committing", "update_page": "committing", "set_label": "committing", "add_user": "committing",
		"get_or_create": "committing", "find_and_replace": "committing", "create_merge_request_note": "committing", "resolve_thread": "committing",
		"delete_file": "irreversible", "remove": "irreversible", "drop_table": "irreversible", "send_mail": "irreversible", "pay": "irreversible",
		"transfer_funds": "irreversible", "execute": "irreversible", "run_query": "irreversible", "publish_post": "irreversible", "create_payment": "irreversible",
		"merge_merge_request": "irreversible", "get_and_run": "irreversible", "read_then_delete": "irreversible", "readAndSend": "irreversible",
		"check_out": "irreversible", "unpublish": "irreversible", "redeploy": "irreversible", "reset_search": "irreversible", "update_all": "irreversible",
		"search_feedback": "irreversible", "order_search": "irreversible", "file": "irreversible", "index_file": "irreversible", "db-stats": "pure", "pet": "irreversible", "listing": "irreversible", "gеt_file": "irreversible",
		"getfile": "irreversible", "do": "irreversible", "get_файл": "irreversible", "_": "irreversible", "get_file_unsafe": "irreversible",
	} {
		require.Equal(t, want, guess(name, ""), name)
	}
	for _, c := range []struct{ name, more, want string }{
		{"get_file", `"description":"Reads a file, and deletes it."`, "irreversible"},
		{"get_file", `"description":"Returns a file. Never deletes it."`, "pure"},
		{"get_file", `"description":"Sends the file to the owner."`, "irreversible"},
		{"get_file", `"description":"Runs what it finds."`, "irreversible"},
		{"get_file", `"title":"Delete a file"`, "irreversible"},
		{"get_file", `"description":"Updates the file."`, "committing"},
		{"get_file", `"description":"The file, as it was updated, sent or deleted."`, "pure"},
		{"delete_file", `"description":"Only reads."`, "irreversible"},
		{"frobnicate", `"description":"Reads a file."`, "irreversible"},
		{"get_news", `"description":"Searches the web."`, "open"},
		{"brave_web_search", `"description":"Performs a web search."`, "open"},
		{"resolve_library_id", `"description":"Resolves the name of a library."`, "pure"},
		{"query", `"description":"A query in SQL."`, "irreversible"},
		{"query", prefix + `{"sql":{}}}`, "irreversible"},
		{"get_page", prefix + `{"url":{}}}`, "open"},
		{"get_page", prefix + `{"url":{},"method":{"type":"string"}}}`, "irreversible"},
		{"get_page", prefix + `{"webhookUrl":{}}}`, "irreversible"},
		{"get_page", prefix + `{"method":{"enum":["GET","POST"]}}}`, "irreversible"},
		{"issue_read", prefix + `{"method":{"enum":["get","get_comments"]}}}`, "pure"},
		{"issue_read", prefix + `{"method":{"enum":["get","delete"]}}}`, "irreversible"},
		{"issue_write", prefix + `{"method":{"enum":["create","update"]}}}`, "committing"},
		{"label_write", prefix + `{"method":{"enum":["create","delete"]}}}`, "irreversible"},
		{"get_log", prefix + `{"outputPath":{}}}`, "committing"},
		{"get_log", prefix + `{"filename":{"description":"Where to save the log"}}}`, "committing"},
		{"get_log", prefix + `{"options":{"properties":{"delete":{"type":"boolean"}}}}}`, "irreversible"},
	} {
		require.Equal(t, c.want, guess(c.name, c.more), "%s %s", c.name, c.more)
	}
}

// Only hints are hints: a title makes none.
func TestAnnotationsWithoutHints(t *testing.T) {
	for _, a := range []string{`{}`, `null`, `{"title":"T"}`, `{"readOnlyHint":null}`} {
		p, err := intake.Propose(named("get_file", `"annotations":`+a), true)
		require.NoError(t, err)
		require.True(t, p.Guess, a)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for text, why := range map[string]string{
		`{"inputSchema":{}}`:    "has no name",
		`{"name":""}`:           "has no name",
		`{"name":1}`:            "has no name",
		`[]`:                    "is not an object",
		`{"name":"t"`:           "the definition of a tool: ",
		`{"name":"t","name":1}`: "the definition of a tool: ",
		`{"name":"t","x":` + strings.Repeat("[", 10_000) + `]}`:                "the definition of a tool: ",
		`{"name":"t","x":"` + strings.Repeat("x", intake.MaxDefinition) + `"}`: "has 1048595 bytes, more than 1048576",
	} {
		_, err := intake.Propose([]byte(text), true)
		require.ErrorContains(t, err, why, "%.100s", text)
		_, err = intake.Flags([]byte(text))
		require.ErrorContains(t, err, why, "%.100s", text)
	}
}
