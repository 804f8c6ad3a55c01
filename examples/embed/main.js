// A site that shares a dropped file. People who open its link get the file from the tabs that have it open.
import { Watchfire } from '@watchfire/pages'
import '@watchfire/element'

const server = document.querySelector('meta[name=server]').content
const fire = new Watchfire(server)
const hint = document.querySelector('#hint')
const shown = document.querySelector('watch-fire')
const cid = location.hash.slice(1)
shown.hidden = cid === ''

if (cid !== '') {
  shown.addEventListener('statuschange', () => hint.replaceChildren(shown.problem ?? ''))
  shown.setAttribute('server', server)
  shown.setAttribute('cid', cid)
}

addEventListener('dragover', (event) => event.preventDefault())
addEventListener('drop', (event) => {
  event.preventDefault()
  const [file] = event.dataTransfer.files
  if (file !== undefined) share(file).catch((error) => hint.replaceChildren(error.message))
})

async function share(file) {
  const page = await fire.share([file])
  const link = document.createElement('a')
  link.href = `#${page.root}`
  link.target = '_blank'
  link.textContent = file.name
  page.subscribe(({ counts }) => hint.replaceChildren(link, ` is open in this tab. Tabs that have it open: ${counts.watching}`))
}
