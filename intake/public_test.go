package intake_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/intake"
	"chimera.ai/engine/plan"
)

// careful is what a person says of public tools who knows what they do. Pure leaves nothing
// behind, save in the session; what is committing can be undone by whoever called; the rest is
// irreversible, such as what others are told, what is gone, and what runs the caller's program.
var careful = map[plan.EffectClass]string{
	plan.Pure: `
		everything/echo everything/get-annotated-message everything/get-env everything/get-structured-content everything/get-sum
		everything/get-tiny-image everything/get-resource-links everything/simulate-research-query
		filesystem/read_file filesystem/read_text_file filesystem/read_media_file filesystem/read_multiple_files filesystem/list_directory
		filesystem/list_directory_with_sizes filesystem/directory_tree filesystem/search_files filesystem/get_file_info
		filesystem/list_allowed_directories
		memory/read_graph memory/search_nodes memory/open_nodes
		seqthink/sequentialthinking
		ghold/search_repositories ghold/get_file_contents ghold/list_commits ghold/list_issues ghold/search_code ghold/search_users ghold/get_issue
		ghold/get_pull_request ghold/get_pull_request_files ghold/get_pull_request_status ghold/get_pull_request_comments
		playwright/browser_console_messages playwright/browser_network_requests playwright/browser_snapshot playwright/browser_wait_for
		chrome/get_console_message chrome/get_css_styles chrome/list_console_messages chrome/list_network_requests chrome/list_pages
		chrome/performance_analyze_insight chrome/wait_for
		notion/API-get-user notion/API-get-users notion/API-get-self notion/API-post-search notion/API-get-block-children
		notion/API-retrieve-a-block notion/API-retrieve-a-page notion/API-retrieve-a-comment notion/API-query-data-source
		notion/API-retrieve-a-database notion/API-retrieve-page-markdown
		mongodb/collection-indexes mongodb/collection-schema mongodb/collection-storage-size mongodb/count mongodb/db-stats mongodb/explain
		mongodb/find mongodb/list-collections mongodb/list-databases mongodb/mongodb-logs mongodb/search-knowledge
		gitlab/get_merge_request_approval_state gitlab/get_merge_request_conflicts gitlab/list_merge_request_pipelines gitlab/get_file_contents
		gitlab/get_branch gitlab/list_protected_branches gitlab/get_protected_branch gitlab/get_merge_request gitlab/get_merge_request_diffs
		gitlab/list_merge_request_changed_files gitlab/mr_discussions gitlab/get_draft_note gitlab/list_draft_notes
		gitlab/list_issue_emoji_reactions gitlab/my_issues gitlab/list_todos gitlab/verify_namespace gitlab/validate_ci_lint
		gitlab/list_merge_requests gitlab/get_users gitlab/whoami gitlab/get_commit_diff gitlab/list_commit_statuses gitlab/health_check
		gitlab/get_project_events gitlab/list_events gitlab/get_merge_request_note
		firecrawl/firecrawl_search firecrawl/firecrawl_map firecrawl/firecrawl_extract firecrawl/firecrawl_check_crawl_status
		firecrawl/firecrawl_agent_status firecrawl/firecrawl_monitor_list firecrawl/firecrawl_monitor_get firecrawl/firecrawl_monitor_check
		firecrawl/firecrawl_research_search_papers firecrawl/firecrawl_research_read_paper firecrawl/firecrawl_research_search_github
		tavily/tavily_search tavily/tavily_extract tavily/tavily_crawl tavily/tavily_map
		context7/resolve-library-id context7/query-docs
		github/actions_get github/actions_list github/find_duplicate github/get_code_scanning_alert github/get_commit github/get_job_logs
		github/get_latest_release github/get_me github/get_release_by_tag github/get_secret_scanning_alert github/issue_dependency_read
		github/issue_read github/list_notifications github/list_pull_requests github/list_releases github/list_starred_repositories
		github/projects_get github/projects_list github/pull_request_read github/search_commits github/search_orgs github/ui_get`,
	plan.Committing: `
		everything/toggle-simulated-logging everything/toggle-subscriber-updates everything/gzip-file-as-resource
		filesystem/write_file filesystem/edit_file filesystem/create_directory filesystem/move_file
		memory/create_entities memory/create_relations memory/add_observations
		ghold/create_or_update_file ghold/create_repository ghold/push_files ghold/create_issue ghold/create_pull_request ghold/fork_repository
		ghold/create_branch ghold/update_issue ghold/add_issue_comment
		playwright/browser_find playwright/browser_take_screenshot playwright/browser_resize playwright/browser_tabs
		chrome/get_network_request chrome/take_screenshot chrome/take_heapsnapshot chrome/resize_page
		notion/API-patch-page notion/API-post-page notion/API-create-a-comment notion/API-update-a-data-source notion/API-create-a-data-source
		notion/API-move-page notion/API-update-page-markdown notion/API-patch-block-children
		mongodb/create-collection mongodb/create-index mongodb/insert-many mongodb/connect mongodb/export
		gitlab/create_or_update_file gitlab/create_repository gitlab/create_group gitlab/create_branch gitlab/protect_branch
		gitlab/update_default_branch gitlab/create_note gitlab/create_merge_request_thread gitlab/resolve_merge_request_thread
		gitlab/create_merge_request gitlab/update_merge_request gitlab/create_merge_request_note gitlab/update_merge_request_note
		gitlab/create_draft_note gitlab/create_issue_emoji_reaction gitlab/update_issue gitlab/update_issue_description_patch
		gitlab/mark_todo_done gitlab/create_issue_link gitlab/create_label gitlab/update_label gitlab/create_commit_status
		gitlab/download_attachment gitlab/update_project gitlab/discover_tools
		firecrawl/firecrawl_monitor_create firecrawl/firecrawl_monitor_update firecrawl/firecrawl_interact_stop
		github/add_issue_comment github/add_issue_reaction github/add_sub_issue github/create_branch github/create_gist github/create_issue
		github/create_or_update_file github/create_pull_request github/create_repository github/issue_dependency_write github/issue_write
		github/reprioritize_sub_issue github/resolve_review_thread github/star_repository github/sub_issue_write github/unstar_repository
		github/update_gist github/update_issue_labels github/update_issue_state github/update_pull_request_title github/set_issue_fields
		github/remove_sub_issue github/manage_notification_subscription`,
	plan.Irreversible: `
		everything/trigger-long-running-operation
		memory/delete_entities memory/delete_observations memory/delete_relations
		ghold/merge_pull_request
		playwright/browser_click playwright/browser_evaluate playwright/browser_file_upload playwright/browser_fill_form
		playwright/browser_handle_dialog playwright/browser_navigate playwright/browser_press_key playwright/browser_run_code_unsafe
		playwright/browser_type
		chrome/click chrome/evaluate_script chrome/fill chrome/fill_form chrome/handle_dialog chrome/navigate_page chrome/press_key
		chrome/type_text chrome/upload_file
		notion/API-delete-a-block
		mongodb/delete-many mongodb/drop-collection mongodb/drop-database mongodb/drop-index mongodb/rename-collection mongodb/update-many
		mongodb/aggregate
		gitlab/merge_merge_request gitlab/approve_merge_request gitlab/unapprove_merge_request gitlab/delete_branch gitlab/unprotect_branch
		gitlab/delete_merge_request_note gitlab/delete_draft_note gitlab/publish_draft_note gitlab/bulk_publish_draft_notes
		gitlab/delete_issue_emoji_reaction gitlab/delete_issue gitlab/mark_all_todos_done gitlab/delete_issue_link gitlab/delete_label
		gitlab/upload_markdown
		firecrawl/firecrawl_agent firecrawl/firecrawl_crawl firecrawl/firecrawl_feedback firecrawl/firecrawl_search_feedback
		firecrawl/firecrawl_interact firecrawl/firecrawl_monitor_delete firecrawl/firecrawl_monitor_run firecrawl/firecrawl_scrape
		tavily/tavily_research
		github/actions_run_trigger github/assign_copilot_to_issue github/delete_file github/delete_pending_pull_request_review
		github/delete_repository github/discussion_comment_write github/dismiss_notification github/label_write
		github/mark_all_notifications_read github/merge_pull_request github/projects_write github/pull_request_review_write
		github/request_copilot_review github/request_pull_request_reviewers github/submit_pending_pull_request_review
		github/manage_repository_notification_subscription github/create_pull_request_review ghold/create_pull_request_review`,
}

// No guess is less dangerous than what a careful person says: of 296, 251 are the same, and 45 are
// more dangerous.
func TestGuessesOfPublicTools(t *testing.T) {
	tools, whole := public(t)
	order := map[plan.EffectClass]int{plan.Pure: 0, plan.Committing: 1, plan.Irreversible: 2}
	effect := map[string]plan.EffectClass{}
	for _, tool := range tools {
		p, err := intake.Propose(tool.Definition, true)
		require.NoError(t, err)
		require.True(t, p.Guess, "nothing in the collection has hints")
		effect[tool.Server+"/"+tool.Name] = p.Effect

		p, err = intake.Propose(tool.Definition, false)
		require.NoError(t, err)
		require.Equal(t, plan.Irreversible, p.Effect)
		require.Equal(t, plan.ManualReview, p.Status)
		require.False(t, p.Guess)
	}
	rest(t, whole)
	said, equal, more := map[string]bool{}, 0, 0
	servers := map[string]bool{}
	for want, names := range careful {
		for name := range strings.FieldsSeq(names) {
			require.False(t, said[name], name)
			said[name] = true
			got, ok := effect[name]
			require.True(t, ok, "the collection has no %s", name)
			server, _, _ := strings.Cut(name, "/")
			servers[server] = true
			switch {
			case got == want:
				equal++
			case order[got] < order[want]:
				t.Errorf("%s is %s, and guessed %s", name, want, got)
			default:
				more++
			}
		}
	}
	require.Len(t, servers, 14)
	require.Equal(t, []int{296, 251, 45}, []int{len(said), equal, more})
}

// One answer accepts a group.
func TestAnswersForPublicTools(t *testing.T) {
	all, whole := public(t)
	for hints, want := range map[bool]int{true: 30, false: 19} {
		answers, seen := 0, 0
		servers := map[string][]intake.Tool{}
		for _, tool := range all {
			servers[tool.Server] = append(servers[tool.Server], tool)
		}
		for server, tools := range servers {
			groups := intake.Groups(tools, hints)
			answers += len(groups)
			for _, g := range groups {
				require.Equal(t, server, g.Server)
				require.NotEmpty(t, g.Tools)
				seen += len(g.Tools)
			}
		}
		require.Equal(t, len(all), seen)
		require.LessOrEqual(t, answers, len(all))
		if whole {
			require.Equal(t, want, answers)
		}
	}
	rest(t, whole)
}

// Few false alarms: what is flagged of the public collection, 5 tools of 439.
func TestFlagsOfPublicTools(t *testing.T) {
	all, whole := public(t)
	flagged := map[string][]intake.FlagKind{}
	names := map[string][]string{}
	for _, tool := range all {
		flags, err := intake.Flags(tool.Definition)
		require.NoError(t, err)
		for _, f := range flags {
			flagged[tool.Server+"/"+tool.Name] = append(flagged[tool.Server+"/"+tool.Name], f.Kind)
		}
		names[tool.Server] = append(names[tool.Server], tool.Name)
	}
	for server, of := range names {
		require.Empty(t, intake.FlagNames(of), server)
	}
	if !whole {
		require.Empty(t, flagged)
	}
	rest(t, whole)
	i, l := intake.Instruction, intake.Long
	require.Equal(t, map[string][]intake.FlagKind{
		"mongodb/aggregate":                  {l, i, i, i, i}, // more than 5000 bytes, and four times "Note to LLM"
		"mongodb/explain":                    {l, i, i, i, i},
		"mongodb/export":                     {l, i, i, i, i},
		"gitlab/approve_merge_request":       {intake.Secret}, // the user's password
		"gitlab/get_merge_request_file_diff": {i},             // another tool is to be called first
	}, flagged)
}

// TestPublicNames: no public server has a tool that looks like one of another server.
func TestPublicNames(t *testing.T) {
	known := map[string][]string{}
	all, _ := public(t)
	for _, tool := range all {
		known[tool.Server] = append(known[tool.Server], tool.Name)
	}
	for server, tools := range known {
		require.Empty(t, intake.FlagKnown(server, tools, known), server)
	}
}
