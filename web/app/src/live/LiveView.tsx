import '../style/live.css'
import { useMemo, useState } from 'preact/hooks'
import { live as text } from '../messages/live.ts'
import { shownName } from '../names/index.ts'
import type { DirectoryFile, PageContent, PageSession } from '../ui/site.ts'
import { AppendForm } from './AppendForm.tsx'
import { EntryView } from './EntryView.tsx'

/** Entries that are shown at first, and with each further step. */
const SHOWN_STEP = 50

interface LiveViewProps {
  content: Extract<PageContent, { kind: 'live' }>
  session: PageSession
}

/** A live page: its entries, the newest first, as far as they are here. */
export function LiveView({ content: { feed, files }, session }: LiveViewProps) {
  const { title, entries, isComplete, isOurs, survivesReload, splitAt, invalidAt } = feed
  const [shownMax, setShownMax] = useState(SHOWN_STEP)
  const filesOf = useMemo(() => byEntry(files), [files])
  const shown = entries.slice(-shownMax).reverse()
  const isOver = splitAt !== null || invalidAt !== null
  const count = entries.length
  return (
    <section class="live">
      <header>
        <h1 dir="auto" translate={title === ''}>
          {shownName(title) || text('nameless')}
        </h1>
        <p class="small" role="status">
          {isOver ? text('ended', { count }) : text('status', { count })}
        </p>
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
      {isOurs && splitAt === null && <AppendForm session={session} survivesReload={survivesReload} />}
      {!isComplete && <p class="small">{text('catchingUp')}</p>}
      <ol class="feed" reversed aria-label={text('entries')}>
        {shown.map((entry) => (
          <EntryView
            key={entry.number}
            entry={entry}
            files={filesOf.get(entry.number) ?? []}
            isDisputed={splitAt !== null && entry.number >= splitAt}
          />
        ))}
      </ol>
      {count > shownMax && (
        <button type="button" onClick={() => setShownMax((most) => most + SHOWN_STEP)}>
          {text('earlier')}
        </button>
      )}
    </section>
  )
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
