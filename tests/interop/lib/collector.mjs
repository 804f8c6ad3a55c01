// A real OpenTelemetry collector that prints every span, built once with Go.

import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { waitUntil } from './deadlines.mjs'
import { newFolder } from './folders.mjs'
import { GoPrograms } from './go-programs.mjs'
import { listeningPorts } from './listening-ports.mjs'
import { Program, run } from './program.mjs'

const BUILD_MS = 20 * 60_000
const SPANS_MS = 20_000
const FOLDER = fileURLToPath(new URL('../otelcol', import.meta.url))

const programs = new GoPrograms({
  folder: 'otelcol',
  module: 'go.opentelemetry.io/collector/cmd/builder',
  packages: { builder: '' },
  keptIn: 'otelcol',
  inputs: ['manifest.yaml'],
})

/** The reason why the collector cannot run here; false when it can. On the CI machine it must run. */
export const whyNoCollector = programs.whyMissing

/** Builds the collector of otelcol/manifest.yaml unless it exists: takes minutes. Returns its path. */
export async function buildCollector() {
  const finished = path.join(path.dirname(programs.path('builder')), 'otelcol')
  if (existsSync(finished)) return finished
  await programs.build()
  const unfinished = `${finished}.${process.pid}`
  const args = ['--config', path.join(FOLDER, 'manifest.yaml'), '--output-path', unfinished]
  await run(programs.path('builder'), args, { cwd: FOLDER, timeout: BUILD_MS, killSignal: 'SIGKILL' })
  renameSync(path.join(unfinished, 'otelcol'), finished)
  rmSync(unfinished, { recursive: true })
  return finished
}

/** A running collector. */
export class Collector {
  port
  endpoint
  #program

  /** Starts one that receives OTLP over HTTP, on this port or a free one. */
  static async start(port) {
    const collector = new Collector()
    const program = await buildCollector()
    collector.port = port ?? (await listeningPorts(1))[0]
    collector.endpoint = `http://127.0.0.1:${collector.port}`
    const config = path.join(newFolder(), 'config.json')
    writeFileSync(
      config,
      JSON.stringify({
        receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${collector.port}` } } } },
        exporters: { debug: { verbosity: 'detailed' } },
        service: {
          telemetry: { metrics: { level: 'none' } },
          pipelines: { traces: { receivers: ['otlp'], exporters: ['debug'] } },
        },
      }),
    )
    collector.#program = new Program(program, ['--config', config])
    await collector.#program.until(() => collector.#program.output.includes('Everything is ready'), 'the collector is ready')
    return collector
  }

  /** All spans so far. */
  spans() {
    return parse(this.#program.output)
  }

  /** Waits until `pick` finds something in the spans, and returns it. */
  async find(pick, what) {
    try {
      return await waitUntil(() => pick(this.spans()), what, SPANS_MS)
    } catch (error) {
      error.message += `\n${this.spans().map(describe).join('\n')}`
      throw error
    }
  }

  stop() {
    return this.#program.stop()
  }
}

/** A span in one line, for the messages of failed tests. */
export const describe = ({ service, pid, name, trace, id, parent, attributes, error }) =>
  `${service}[${pid}] ${name} ${trace} ${parent || '-'} > ${id} ${JSON.stringify(attributes)} ${error}`

/** Reads what the debug exporter prints. */
function parse(output) {
  const spans = []
  let resource = {}
  let attributes = {}
  for (const line of output.split('\n')) {
    const field = /^ {4}(\S[^:]*?) *: ?(.*)$/.exec(line)
    const attribute = /^ {5}-> ([^:]+): (?:Str|Int|Bool)\((.*)\)$/.exec(line)
    if (line.startsWith('Resource attributes:')) attributes = resource = {}
    else if (/^Span #\d+$/.test(line)) {
      attributes = {}
      spans.push({ service: resource['service.name'], pid: Number(resource['process.pid']), attributes, error: '' })
    } else if (attribute) attributes[attribute[1]] = attribute[2]
    else if (field) {
      const member = { 'Trace ID': 'trace', 'Parent ID': 'parent', ID: 'id', Name: 'name', Kind: 'kind', 'Status message': 'error' }[
        field[1]
      ]
      if (member) spans.at(-1)[member] = field[2]
    }
  }
  return spans
}
