// Shows `/status` of the mirror, again each second while the page is visible. Text always goes through `textContent`.

const PERIOD_MS = 1000
const TIMEOUT_MS = 8000
/** Points of the chart: five minutes. */
const POINTS_MAX = 300
const CHART = { width: 900, height: 120, top: 6 }

const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id))

function element(name, className, ...children) {
  const created = document.createElement(name)
  if (className) created.className = className
  created.append(...children)
  return created
}

function setText(target, text) {
  if (target.textContent !== text) target.textContent = text
}

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

function bytes(value) {
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), BYTE_UNITS.length - 1)
  return `${Number((value / 1024 ** power).toPrecision(3))} ${BYTE_UNITS[power]}`
}

function duration(seconds) {
  const [days, hours, minutes] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60]
  if (days > 0) return `${days} d ${hours} h`
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min` : `${Math.floor(seconds)} s`
}

/** Shows control characters, and characters that reorder or hide text, as their code points. */
function visible(text) {
  const code = (character) => `[U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, code)
}

const name = (text) => element('bdi', 'name', visible(text))

function setMeter(meter, share, text) {
  const percent = Math.round(100 * Math.min(Math.max(share, 0), 1))
  meter.setAttribute('aria-valuenow', percent)
  meter.setAttribute('aria-valuetext', text)
  meter.firstChild.style.width = `${percent}%`
}

/** The rates of received bytes since the page was opened. */
class Traffic {
  /** @type {{ nowMs: number, registry: any, fleet: any } | null} */
  #last = null
  #points = []

  add({ registry_bytes: registry, host_bytes: fleet }, nowMs) {
    const now = { nowMs, registry, fleet }
    const before = this.#last
    this.#last = now
    // After a restart of the mirror, its counts begin again.
    if (!before || registry < before.registry || fleet < before.fleet) return
    const seconds = (nowMs - before.nowMs) / 1000
    if (seconds <= 0) return
    this.#points.push({ registry: (registry - before.registry) / seconds, fleet: (fleet - before.fleet) / seconds })
    this.#points = this.#points.slice(-POINTS_MAX)
    this.#draw()
  }

  #draw() {
    const highest = Math.max(1, ...this.#points.flatMap(({ registry, fleet }) => [registry, fleet]))
    const step = CHART.width / (POINTS_MAX - 1)
    const start = CHART.width - step * (this.#points.length - 1)
    for (const source of ['registry', 'fleet']) {
      const at = (point, index) => {
        const y = CHART.height - 1 - (point[source] / highest) * (CHART.height - CHART.top)
        return `${(start + index * step).toFixed(1)} ${y.toFixed(1)}`
      }
      byId(`line-${source}`).setAttribute('d', `M${this.#points.map(at).join('L')}`)
      setText(
        byId(`from-${source}`),
        `${bytes(this.#points.at(-1)[source])}/s, at most ${bytes(Math.max(...this.#points.map((point) => point[source])))}/s`,
      )
    }
  }
}

const traffic = new Traffic()
/** The element of each running download. */
const downloads = new Map()

function show(status) {
  setText(byId('server'), `version ${visible(status.version)} · up ${duration(status.uptime_seconds)}`)
  showDownloads(status.running)
  const { completed, failed } = status.downloads
  setText(byId('ended'), `${COUNT.format(completed)} completed and ${COUNT.format(failed)} failed since the start.`)
  traffic.add(status.downloads, performance.now())
  showRequests(status.requests)
  const { store } = status
  const text = `${bytes(store.bytes)} of ${bytes(store.bytes_max)} in ${COUNT.format(store.blobs)} blobs; ${COUNT.format(store.evicted)} removed to make room`
  setMeter(byId('store'), store.bytes / store.bytes_max, text)
  setText(byId('store-text'), `${text}.`)
  showFleet(status.fleet)
  setText(byId('images-title'), titleOf('Images', status.images.length, status.image_count))
  showRows(byId('images'), status.images, (image) => [element('th', '', name(image.name)), element('td', '', name(image.digest))])
  byId('files-section').hidden = status.file_count === 0
  setText(byId('files-title'), titleOf('Files of other servers', status.files.length, status.file_count))
  showRows(byId('files'), status.files, (file) => [element('th', '', name(file.url)), element('td', 'number', bytes(file.bytes))])
  byId('content').hidden = false
}

const titleOf = (what, shown, all) =>
  shown < all ? `${what}: the first ${COUNT.format(shown)} of ${COUNT.format(all)}` : `${what}: ${COUNT.format(all)}`

function showDownloads(running) {
  const seen = new Set(running.map(({ digest }) => digest))
  for (const [digest, item] of downloads) {
    if (seen.has(digest)) continue
    item.remove()
    downloads.delete(digest)
  }
  for (const download of running) {
    const item = downloads.get(download.digest) ?? newDownload(download)
    const { bytes: size, present_bytes: present, registry_bytes: registry, host_bytes: hosts, seconds } = download
    const progress = size === null ? `${bytes(present)} of an unknown size` : `${bytes(present)} of ${bytes(size)}`
    setText(
      item.lastChild,
      `${progress} after ${duration(seconds)}; ${bytes(registry)} from the registry, ${bytes(hosts)} from ${COUNT.format(download.hosts.length)} hosts`,
    )
    setMeter(item.children[1], size ? present / size : 0, progress)
  }
  byId('no-downloads').hidden = running.length > 0
}

function newDownload({ digest, repository }) {
  const meter = element('div', 'meter', element('div', 'fill'))
  for (const [key, value] of Object.entries({ role: 'meter', 'aria-label': 'Progress', 'aria-valuemin': 0, 'aria-valuemax': 100 }))
    meter.setAttribute(key, value)
  const item = element('li', '', element('div', '', name(repository), ' ', name(digest)), meter, element('p', 'small'))
  downloads.set(digest, item)
  byId('downloads').append(item)
  return item
}

function showRequests({ manifests, blobs, files }) {
  const row = ([kind, { store, fleet, registry, error }]) => {
    const answered = store + fleet + registry
    const share = answered > 0 ? `${Math.round((100 * store) / answered)} %` : '–'
    const cells = [store, fleet, registry, error].map((count) => element('td', 'number', COUNT.format(count)))
    return [element('th', '', kind), ...cells, element('td', 'number', share)]
  }
  showRows(byId('requests'), Object.entries({ Manifests: manifests, Blobs: blobs, Files: files }), row)
}

function showFleet(fleet) {
  byId('fleet-section').hidden = fleet === null
  if (fleet === null) return
  const facts = {
    Hosts: `${COUNT.format(fleet.known_hosts)} known, ${COUNT.format(fleet.connections)} connected`,
    'Coordinated blobs': COUNT.format(fleet.coordinated_blobs),
    Received: bytes(fleet.received_bytes),
    Sent: bytes(fleet.sent_bytes),
    Duplicates: bytes(fleet.duplicate_bytes),
    Region: fleet.region ? visible(fleet.region) : 'None',
    'Own id': visible(fleet.peer_id),
  }
  const pair = ([term, value]) => element('div', '', element('dt', '', term), element('dd', '', value))
  replaceIfChanged(byId('fleet'), facts, () => Object.entries(facts).map(pair))
}

/** Replaces the rows of a table when their data changed. The first cell of a row is its header. */
function showRows(body, rows, cellsOf) {
  const line = (row) => {
    const [header, ...cells] = cellsOf(row)
    header.scope = 'row'
    return element('tr', '', header, ...cells)
  }
  replaceIfChanged(body, rows, () => rows.map(line))
}

const shown = new WeakMap()

/** Keeps a selection and the focus while nothing changes. */
function replaceIfChanged(parent, data, childrenOf) {
  const key = JSON.stringify(data)
  if (shown.get(parent) === key) return
  shown.set(parent, key)
  parent.replaceChildren(...childrenOf())
}

async function load() {
  const connection = byId('connection')
  try {
    const response = await fetch('status', { cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    show(await response.json())
    setText(connection, 'Live')
    connection.classList.remove('bad')
  } catch (error) {
    setText(connection, `The mirror does not answer (${error.message}). This page shows its last answer and tries again.`)
    connection.classList.add('bad')
  }
}

async function run() {
  for (;;) {
    if (!document.hidden) await load()
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS))
  }
}

void run()
