import proto from '@temporalio/proto'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { startWorkers } from './turn/workers.ts'
process.env.BENCH_RESULT_BYTES='1000'
const HE = proto.temporal.api.history.v1.HistoryEvent
const stack = await startStack()
const connection = await Connection.connect({ address: stack.temporalAddress })
const client = new Client({ connection })
const stop = await startWorkers('pawl', 1, { address: stack.temporalAddress, namespace: 'default', databaseUrl: stack.databaseUrl, eager:'on', floorBundle:'' })
const pawl = await Pawl.connect({ temporal: client, taskQueue: 'bench-pawl', postgres: stack.databaseUrl })
const s = pawl.session(undefined, {agent:'bench'})
await (await s.send('1000')).result()
let runId: string|undefined
const ex: any[] = []
do { const h = client.workflow.getHandle('pawl:'+s.id, runId); const d = await h.describe(); const {events} = await h.fetchHistory(); ex.unshift({events, size:d.historySize}); runId = events![0]!.workflowExecutionStartedEventAttributes!.continuedExecutionRunId || undefined } while(runId)
for (const {events,size} of ex) {
  const by: Record<string,[number,number]> = {}
  let total=0, turns=0
  for (const e of events) { const b = HE.encode(e).finish().length; total+=b
    const t = e.activityTaskScheduledEventAttributes?.activityType?.name; if (t==='callModel') turns++
    let name = proto.temporal.api.enums.v1.EventType[e.eventType] ?? String(e.eventType)
    if (t) name += ':'+t
    by[name] ??= [0,0]; by[name]![0]++; by[name]![1]+=b }
  console.log({n:events.length,total,size,turns,perTurn:total/turns}, Object.fromEntries(Object.entries(by).map(([k,[n,b]])=>[k.replace('EVENT_TYPE_',''),`${n}x${Math.round(b/n)}`])))
}
const first = ex[0].events.filter((e:any)=>e.activityTaskScheduledEventAttributes)
const show = (e:any) => console.log(Buffer.from(e.activityTaskScheduledEventAttributes.input.payloads[0].data).toString())
show(first[20]); show(first[21]); const last = ex.at(-1).events.filter((e:any)=>e.activityTaskScheduledEventAttributes); show(last[20]); show(last[21])
console.log(Buffer.from(ex.at(-1).events[0].workflowExecutionStartedEventAttributes.input.payloads[0].data).toString().slice(0,3000))
await pawl.close(); await stop(); await connection.close(); await stack.stop()
