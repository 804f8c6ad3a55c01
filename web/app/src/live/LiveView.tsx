import '../style/live.css'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { LiveEntry } from '@watchfire/pages/live'
import { language } from '../messages/index.ts'
import { live as text } from '../messages/live.ts'
import { shownName } from '../names/index.ts'
import type { DirectoryFile, PageContent, PageSession } from '../ui/site.ts'
import { AppendForm } from './AppendForm.tsx'
import { ENTRIES_MAX } from './entries.ts'
import { EntryView } from './EntryView.tsx'

/** Entries that are shown at first, and with each further step. */
const SHOWN_STEP = 50
/** Of more entries, the oldest are hidden again, but only while they are far below the window. */
const SHOWN_MAX = 500

interface LiveViewProps {
  content: Extract<PageContent, { kind: 'live' }>
  session: PageSession
}

/** A live page: its entries, the newest first, as far as they are here. */
export function LiveView({ content: { feed, files }, session }: LiveViewProps) {
  const { title, entries, isComplete, isOurs, survivesReload, splitAt, invalidAt } = feed
  const { shown, showEarlier, list } = useShown(entries)
  const filesOf = useMemo(() => byEntry(files), [files])
  const isFull = (entries.at(-1)?.number ?? 0) >= ENTRIES_MAX
  const isOver = splitAt !== null || invalidAt !== null || isFull
  const count = entries.length
  const writerLeft = useWriterLeft(isOurs, session.counts.value?.watching ?? null)
  return (
    <section class="live">
      <header>
        <h1 dir="auto" translate={title === ''}>
          {shownName(title) || text('nameless')}
        </h1>
        <p class="small" role="status">
          {text(isOver || writerLeft !== null ? 'ended' : 'status', { count })}
        </p>
        {!isOver && writerLeft !== null && <p role="status">{writerLeft}</p>}
      </header>
      {splitAt !== null && (
        <p class="notice bad" role="alert">
          {text('split', { number: String(splitAt) })}
        </p>
      )}
      {invalidAt !== null && (
        <p class="notice bad" role="alert">
          {text('invalid', { number: String(invalidAt) })}
        </p>
      )}
      {isFull && (
        <p class="notice" role="status">
          {text('full')}
        </p>
      )}
      {isOurs && splitAt === null && !isFull && <AppendForm session={session} first={entries[0]} survivesReload={survivesReload} />}
      {!isComplete && <p class="small">{text('catchingUp')}</p>}
      <ol ref={list} class="feed" reversed aria-label={text('entries')}>
        {shown.map((entry) => (
          <EntryView
            key={entry.number}
            entry={entry}
            files={filesOf.get(entry.number) ?? []}
            isDisputed={splitAt !== null && entry.number >= splitAt}
          />
        ))}
      </ol>
      {count > shown.length && (
        <button type="button" onClick={showEarlier}>
          {text('earlier')}
        </button>
      )}
    </section>
  )
}

/**
 * Says that no entry follows; `null` while the writer may be here. Nothing else shows who of several visitors is the writer, so only a
 * reader who is alone knows.
 */
function useWriterLeft(isOurs: boolean, watching: number | null): string | null {
  const hadCompany = useRef(false)
  const since = useRef<Date | null>(null)
  if (watching === null || isOurs) return null
  if (watching > 1) {
    hadCompany.current = true
    since.current = null
    return null
  }
  if (!hadCompany.current) return text('writerAbsent')
  since.current ??= new Date()
  return text('writerLeft', { time: since.current.toLocaleTimeString(language.value.tag, { timeStyle: 'short' }) })
}

/** The entries that are shown, the newest first. The oldest of them stays when newer ones come: somebody may be reading it. */
function useShown(entries: readonly LiveEntry[]) {
  const [step, setStep] = useState(SHOWN_STEP)
  /** The lowest number that is shown. */
  const first = useRef(Infinity)
  const list = useRef<HTMLOListElement>(null)
  first.current = Math.min(first.current, (entries.at(-step) ?? entries[0])?.number ?? Infinity)
  const shown = entries.filter(({ number }) => number >= first.current).reverse()
  useEffect(() => {
    if (shown.length <= SHOWN_MAX || (list.current?.getBoundingClientRect().bottom ?? 0) < 3 * innerHeight) return
    first.current = Infinity
    setStep(SHOWN_STEP)
  }, [shown.length])
  return { shown, list, showEarlier: () => setStep(shown.length + SHOWN_STEP) }
}

/** The files of each entry: their paths begin with its number. */
function byEntry(files: readonly DirectoryFile[]): Map<number, DirectoryFile[]> {
  const found = new Map<number, DirectoryFile[]>()
  for (const file of files) {
    const number = Number.parseInt(file.path, 10)
    const before = found.get(number)
    if (before === undefined) found.set(number, [file])
    else before.push(file)
  }
  return found
}
