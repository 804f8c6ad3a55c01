// The addresses that an operator has denied.

import { guardChanges, showFailure } from './operator-api.js'
import { Table, button, element, setText } from './operator-dom.js'
import { clock, short } from './operator-text.js'

/** The list, hidden while it is empty. */
export class DeniedAddresses {
  #app
  #status = element('p', { className: 'small', role: 'status' })
  #note = element('p', { className: 'small' })
  #table = new Table({
    caption: 'Denied addresses',
    keyOf: ({ address }) => address,
    columns: [
      { label: 'Address', isHeader: true, text: ({ address }) => short(address) },
      { label: 'Until', text: ({ until_ms: ms }) => clock(ms), sort: ({ until_ms: ms }) => ms },
      { label: 'Action', sort: '', value: ({ address }) => address, nodes: (address) => [this.#allowButton(address)] },
    ],
  })
  element = element(
    'section',
    { hidden: true },
    element('h3', { textContent: 'Denied addresses' }),
    this.#status,
    this.#table.element,
    this.#note,
  )

  constructor(app) {
    this.#app = app
  }

  async load(signal) {
    const { denied } = await this.#app.api.get('/admin/addresses/denied', {}, signal)
    this.element.hidden = denied.length === 0
    this.#table.update(denied)
  }

  #allowButton(address) {
    const allow = button('Allow', () => this.#allow(address), { 'aria-label': `Allow ${short(address)}` })
    guardChanges(this.#app, this.#note, [allow])
    return allow
  }

  async #allow(address) {
    try {
      await this.#app.api.send('DELETE', `/admin/addresses/denied/${encodeURIComponent(address)}`)
      setText(this.#status, '')
      await this.load(null)
    } catch (error) {
      showFailure(this.#app, this.#status, error, 'Cannot allow the address', ' Try again.')
    }
  }
}
