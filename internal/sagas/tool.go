package sagas

// toolCatalog has the operations of the tool.
const toolCatalog = `apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 1, on: [unsent]},
     input_schema: {type: object, properties: {run: {type: string}, id: {type: string}, does: {type: string}, page: {type: integer}}, required: [run, id, does]},
     output_schema: {type: object, properties: {page: {type: integer}}, required: [page]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
  - {provider_type: skill, provider_name: book, operation: erase, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 1, on: [unsent]},
     input_schema: {type: object, properties: {run: {type: string}, id: {type: string}, step: {type: string}, does: {type: string}, page: {type: integer}}, required: [run, id, step, does]},
     output_schema: {type: object, properties: {page: {type: integer}}, required: [page]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
  - {provider_type: skill, provider_name: book, operation: look, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {run: {type: string}, id: {type: string}, step: {type: string}, does: {type: string}}, required: [run, id, does]},
     output_schema: {type: object, properties: {there: {type: boolean}}, required: [there]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
  - {provider_type: skill, provider_name: book, operation: note, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {run: {type: string}, id: {type: string}, step: {type: string}, does: {type: string}, page: {type: integer}}, required: [run, id, does]},
     output_schema: {type: object, properties: {page: {type: integer}}, required: [page]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
`

// toolPolicy lets the tool be called, unless it is told to do what the policy rejects.
const toolPolicy = `apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [book/write, book/erase]
allow:
  - {effects: [committing], agents: [tester], operations: [book/write, book/erase], tainted: true}
rules:
  - {id: short, type: hard, operations: [book/write, book/erase], require: 'action.inputs.does.size() < 20'}
`

// tool is a shell script that uses what is built into the shell alone. It appends to the
// journal of its run, in a folder, one line for each thing that it does: what, operation,
// id, step, the page that it was given, and its own number. The line "did" is the effect
// itself; what the tool is asked about, it reads from the journal.
const tool = `in=; read -r in || :
text() { case $in in *"\"$1\":\""*) v=${in#*\"$1\":\"}; v=${v%%\"*} ;; *) v=- ;; esac; }
op=$1; text run; run=$v; text id; id=$v; text step; step=$v; text does; does=$v
page=-; case $in in *'"page":'*) page=${in#*\"page\":}; page=${page%%[,\}]*} ;; esac
say() { echo "$1 $op $id $step $page $$" >> "$DIR/$run"; }
first() { n=0; while read -r a b c d e; do case "$a $b $c $d" in "begin $op $id $step") n=$((n+1)) ;; esac; done < "$DIR/$run"; [ $n = 1 ]; }
wait_long() { while :; do sleep 600; done; }
dies() { kill -9 $$; }
fails() { say error; echo '{"error":{"message":"as it was told"}}'; exit 1; }
say begin
if [ "$op" = look ]; then
	[ "$does" = ok ] || fails
	there=gone
	while read -r a b c d e; do
		case "$step $a $b $c $d" in
		"- did write $id -") there=there ;;
		"- did erase $id "*) there=gone ;;
		"$step did erase $id $step") there=there ;;
		esac
	done < "$DIR/$run"
	say $there
	if [ $there = there ]; then echo '{"there":true}'; else echo '{"there":false}'; fi
	exit 0
fi
case $does in
refuse) fails ;;
vanish) dies ;;
once) if first; then dies; fi ;;
dies) if first; then kill -9 $PPID; wait_long; fi ;;
pretend) say ok; echo '{"page":7}'; exit 0 ;;
esac
say did
case $does in
tear) fails ;;
lose) dies ;;
died) kill -9 $PPID; wait_long ;;
garble) say garbage; echo 'no JSON'; exit 0 ;;
esac
say ok
echo '{"page":7}'`
