// The tools of the operator: the level of the log of all processes, and a flame graph of one.

import { showFailure } from './operator-api.js'
import { element, section, setText } from './operator-dom.js'
import { counted, format } from './operator-text.js'

const LEVELS = ['error', 'warn', 'info', 'debug', 'trace']
const PROFILE_SECONDS = 10

const option = (value, text = value) => element('option', { value, textContent: text })

export class Tools {
  element
  #app
  #level = element('select', {}, ...LEVELS.map((level) => option(level)))
  #levelStatus = element('p', { className: 'small', role: 'status' })
  #process = element('select')
  #record = element('button', { type: 'button', textContent: `Record ${PROFILE_SECONDS} s`, onclick: () => this.#profile() })
  #profileStatus = element('p', { className: 'small', role: 'status' })
  #processes = ''

  constructor(app) {
    this.#app = app
    this.#level.value = 'info'
    const apply = element('button', { type: 'button', textContent: 'Apply', onclick: () => this.#setLevel() })
    const row = (label, control, button) => element('div', { className: 'filters' }, element('label', {}, label, control), button)
    this.element = section(
      'Tools',
      row('Level of the log', this.#level, apply),
      this.#levelStatus,
      row('Flame graph of process', this.#process, this.#record),
      this.#profileStatus,
    )
  }

  /** Shows the processes of the machine. */
  update(processes) {
    const key = processes.join()
    if (key === this.#processes) return
    this.#processes = key
    this.#process.replaceChildren(...processes.map((process) => option(process)))
  }

  async #setLevel() {
    const query = new URLSearchParams({ level: this.#level.value, machine: this.#app.options.machine })
    try {
      const { level, processes } = await this.#app.api.put(`/admin/log?${query}`)
      setText(this.#levelStatus, `The level is ${level} in ${counted(processes, 'process', 'processes')}, until they end.`)
    } catch (error) {
      showFailure(this.#app, this.#levelStatus, error, 'Cannot change the level')
    }
  }

  async #profile() {
    const process = this.#process.value
    if (this.#app.options.machine !== '') {
      return setText(
        this.#profileStatus,
        'Open the operator’s page of that machine: a flame graph comes from the machine of this address only.',
      )
    }
    this.#record.setAttribute('disabled', '')
    setText(this.#profileStatus, `Process ${process} records for ${PROFILE_SECONDS} s…`)
    try {
      const svg = await this.#app.api.file('/debug/flamegraph', { seconds: PROFILE_SECONDS, process }, PROFILE_SECONDS * 1000)
      const link = element('a', {
        href: URL.createObjectURL(svg),
        download: `flame-graph-process-${process}.svg`,
        textContent: `Save the flame graph of process ${process}`,
      })
      this.#profileStatus.replaceChildren(link, ` (${format('bytes', svg.size)})`)
    } catch (error) {
      showFailure(this.#app, this.#profileStatus, error, 'Cannot record')
    } finally {
      this.#record.removeAttribute('disabled')
    }
  }
}
