import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useAwaited } from '../render/awaited.ts'
import { SaveLink } from '../render/SaveLink.tsx'
import { mayHaveScripts, sealSentence } from '../sandbox/index.ts'
import { isAtWalk, walkTo } from '../ui/location.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { files as fileWords } from '../words/files.ts'
import { sizeText } from '../words/index.ts'
import { sites as words } from '../words/sites.ts'
import { SiteFolder } from './folder.ts'
import { frameDocument, SiteFrame, type FrameEvent } from './frame.ts'
import { addressOf } from './origin.ts'

/** Pages beyond this are not searched for scripts, and offered to run what they may have. */
const SEARCHED_BYTES_MAX = 4 << 20

interface SiteViewProps {
  origin: string
  files: readonly DirectoryFile[]
  /** The file it opens with, and the one that its reader chose last outside of it. */
  open: DirectoryFile
  /** Called when there can be no site here, with the reason. */
  onFailed: (reason: string) => void
}

/** A folder as a site on an origin of its own: still at first, with its scripts when asked. */
export function SiteView({ origin, files, open, onFailed }: SiteViewProps) {
  const [running, setRunning] = useState(false)
  const [isReady, setReady] = useState(false)
  const [at, setAt] = useState(open)
  const [notice, setNotice] = useState<Notice | null>(null)
  const outer = useRef<HTMLIFrameElement>(null)
  const stage = useRef<HTMLDivElement>(null)
  const frame = useRef<SiteFrame | null>(null)
  /** Which of the frames shown one after the other: histories of earlier ones are gone. */
  const walk = useRef(0)
  const folder = useMemo(() => new SiteFolder(files), [files])
  const source = useMemo(() => frameDocument(origin), [origin])

  const show = (file: DirectoryFile, scripts: boolean) => {
    walk.current += 1
    setNotice(null)
    setAt(file)
    frame.current?.show(addressOf(file.path), scripts)
  }
  const hear = (event: FrameEvent) => {
    switch (event.kind) {
      case 'ready':
        setReady(true)
        return
      case 'failed':
        onFailed(event.reason)
        return
      case 'lost':
        setNotice({ kind: 'lost' })
        return
      case 'outside':
        setNotice({ kind: 'outside', address: event.address })
        return
      case 'at': {
        setNotice(null)
        const found = folder.find(event.address)
        // Pictures and the like are looked at within the page that leads there.
        if (found.kind !== 'file' || !isPage(found.file)) return
        setAt(found.file)
        walkTo(found.file.path, walk.current)
      }
    }
  }
  const listen = useRef(hear)
  listen.current = hear

  // Before anything is painted, lest the frame says that it is there to nobody.
  useLayoutEffect(() => {
    if (outer.current === null) return
    const shown = new SiteFrame(origin, outer.current, folder, (event) => listen.current(event))
    frame.current = shown
    return () => shown.close()
  }, [origin, folder])
  useEffect(() => {
    if (isReady) show(open, running)
  }, [isReady, running])
  useEffect(() => {
    // The frame goes by itself where its own history leads.
    if (isReady && open !== at && !isAtWalk(walk.current)) show(open, running)
  }, [open])

  const scripted = useAwaited(async () => {
    if (at.size > SEARCHED_BYTES_MAX) return true
    return mayHaveScripts(await (await at.blob()).text())
  }, [at])
  const name = at.path.replace(/^.*\//, '')
  return (
    <article class="file">
      <header class="bar">
        <h1 class="name" dir="auto" translate={false}>{at.path}</h1>
        <p>{sizeText(at.size)}</p>
        <SaveLink file={{ ...at, name }} />
      </header>
      {(running || (scripted !== null && 'ok' in scripted && scripted.ok)) && (
        <div class="bar seal">
          <p>{sealSentence(running)}</p>
          <button type="button" onClick={() => setRunning(!running)}>
            {fileWords(running ? 'stop' : 'run')}
          </button>
        </div>
      )}
      {notice !== null && <Told notice={notice} back={() => show(at, running)} />}
      <div class="stage" ref={stage}>
        <iframe ref={outer} title={words('frame')} srcdoc={source} />
      </div>
      {document.fullscreenEnabled && (
        <div class="bar">
          <button type="button" class="quiet" onClick={() => void stage.current?.requestFullscreen()}>
            {fileWords('wholeScreen')}
          </button>
        </div>
      )}
    </article>
  )
}

type Notice = { kind: 'lost' } | { kind: 'outside'; address: string }

function Told({ notice, back }: { notice: Notice; back: () => void }) {
  if (notice.kind === 'outside') {
    return (
      <p class="notice" role="status">
        {words.around('outside', { address: <code translate={false}>{notice.address.slice(0, 300)}</code> })}
      </p>
    )
  }
  return (
    <p class="notice" role="status">
      {words('lost')}{' '}
      <button type="button" class="quiet" onClick={back}>
        {words('back')}
      </button>
    </p>
  )
}

/** Whether a file is a page of a site by its name. */
export function isPage({ path }: { path: string }): boolean {
  return /\.x?html?$/i.test(path)
}
