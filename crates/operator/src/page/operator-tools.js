// The tools of the operator: the level of the log of all processes, and a flame graph of one.

import { guardChanges, showFailure } from './operator-api.js'
import { button, element, section, select, setText } from './operator-dom.js'
import { clock, counted, format } from './operator-text.js'

const LEVELS = { error: 'error', warn: 'warn', info: 'info', debug: 'debug', trace: 'trace' }
const PROFILE_SECONDS = 10
const OTHER_MACHINE = 'Open the operator’s page of that machine: a flame graph comes from the machine of this address only.'

/** A link that saves a flame graph. */
const savedBy = (svg, download, textContent) => element('a', { href: URL.createObjectURL(svg), download, textContent })

/** A button that offers the flame graph of the minute of the chosen moment. */
export function pastProfile(app) {
  const status = element('span', { className: 'small', role: 'status' })
  const offer = async () => {
    const { at, machine } = app.options
    if (machine !== '') return setText(status, OTHER_MACHINE)
    try {
      const svg = await app.api.file('/admin/profile', { at }, 0)
      status.replaceChildren(savedBy(svg, `flame-graph-${at}.svg`, `Save the flame graph of ${clock(Number(at))}`))
    } catch (error) {
      showFailure(app, status, error, 'Cannot show the flame graph')
    }
  }
  return element('span', { className: 'bar', id: 'past-profile' }, button('Flame graph of the minute', offer), status)
}

export class Tools {
  element
  #app
  #level = select('Level of the log', LEVELS)
  #apply = button('Apply', () => this.#setLevel())
  #note = element('p', { className: 'small' })
  #levelStatus = element('p', { className: 'small', role: 'status' })
  #process = select('Flame graph of process', {})
  #record = button(`Record ${PROFILE_SECONDS} s`, () => this.#profile())
  #profileStatus = element('p', { className: 'small', role: 'status' })
  #processes = ''

  constructor(app) {
    this.#app = app
    this.#level.control.value = 'info'
    const row = ({ field }, start) => element('div', { className: 'filters' }, field, start)
    this.element = section(
      'Tools',
      row(this.#level, this.#apply),
      this.#note,
      this.#levelStatus,
      row(this.#process, this.#record),
      this.#profileStatus,
    )
  }

  /** Shows the processes of the machine. */
  update(processes) {
    guardChanges(this.#app, this.#note, [this.#apply])
    const key = processes.join()
    if (key === this.#processes) return
    this.#processes = key
    this.#process.control.replaceChildren(...processes.map((process) => element('option', { value: process, textContent: process })))
  }

  async #setLevel() {
    const query = new URLSearchParams({ level: this.#level.control.value, machine: this.#app.options.machine })
    try {
      const { level, processes } = await this.#app.api.send('PUT', `/admin/log?${query}`)
      setText(this.#levelStatus, `The level is ${level} in ${counted(processes, 'process', 'processes')}, until they end.`)
    } catch (error) {
      showFailure(this.#app, this.#levelStatus, error, 'Cannot change the level')
    }
  }

  async #profile() {
    const process = this.#process.control.value
    if (this.#app.options.machine !== '') return setText(this.#profileStatus, OTHER_MACHINE)
    this.#record.setAttribute('disabled', '')
    setText(this.#profileStatus, `Process ${process} records for ${PROFILE_SECONDS} s…`)
    try {
      const svg = await this.#app.api.file('/debug/flamegraph', { seconds: PROFILE_SECONDS, process }, PROFILE_SECONDS * 1000)
      const link = savedBy(svg, `flame-graph-process-${process}.svg`, `Save the flame graph of process ${process}`)
      this.#profileStatus.replaceChildren(link, ` (${format('bytes', svg.size)})`)
    } catch (error) {
      showFailure(this.#app, this.#profileStatus, error, 'Cannot record')
    } finally {
      this.#record.removeAttribute('disabled')
    }
  }
}
