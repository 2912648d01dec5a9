// A client that knows nothing of the engine but its contract: workflow type,
// task queue, JSON input, query, result and failure. It prints one JSON
// document of what it saw.
const { Client, Connection, WorkflowFailedError } = require('@temporalio/client');
const fs = require('fs');

async function main() {
  const [address, goodFile, badFile, ref] = process.argv.slice(2);
  const connection = await Connection.connect({ address });
  const client = new Client({ connection });
  const seen = {};

  const good = await client.workflow.start('chimera.Plan', {
    taskQueue: 'chimera',
    workflowId: 'foreign-good-' + process.pid,
    args: [{ source: fs.readFileSync(goodFile, 'utf8'), input: { x: 'from afar', n: 7 } }],
  });
  seen.result = await good.result();
  seen.state = await good.query('chimera.state');

  const published = await client.workflow.start('chimera.Plan', {
    taskQueue: 'chimera',
    workflowId: 'foreign-published-' + process.pid,
    args: [{ plan: ref, input: { x: 'published' } }],
  });
  seen.published = await published.result();

  const huge = await client.workflow.start('chimera.Plan', {
    taskQueue: 'chimera',
    workflowId: 'foreign-huge-' + process.pid,
    args: [{ plan: ref, input: { x: 'much '.repeat(100000) } }],
  });
  seen.hugeId = huge.workflowId;
  seen.huge = await huge.result();

  const bad = await client.workflow.start('chimera.Plan', {
    taskQueue: 'chimera',
    workflowId: 'foreign-bad-' + process.pid,
    args: [{ source: fs.readFileSync(badFile, 'utf8'), input: {} }],
  });
  try {
    await bad.result();
  } catch (e) {
    if (!(e instanceof WorkflowFailedError)) throw e;
    seen.failure = { type: e.cause.type, message: e.cause.message, details: e.cause.details };
  }
  await connection.close();
  process.stdout.write(JSON.stringify(seen));
}

main().catch((e) => { console.error(e); process.exit(1); });
