import { live as text } from '../messages/live.ts'
import type { Draft } from './draft.ts'
import { Toggle } from './Toggle.tsx'

/** Short enough for the title of a live page in any script, see docs/reference/protocols/live.md. */
const TITLE_LENGTH_MAX = 80

interface LiveSwitchProps {
  draft: Draft
  change: (change: (before: Draft) => Draft) => void
}

/** The switch that makes a live page of the draft, and the title of that page. */
export function LiveSwitch({ draft: { liveTitle }, change }: LiveSwitchProps) {
  return (
    <div class="sealing">
      <Toggle
        label={text('live')}
        means="grows"
        isOn={liveTitle !== null}
        // A live page cannot be private.
        onChange={(isOn) => change((before) => ({ ...before, liveTitle: isOn ? '' : null, isPrivate: !isOn && before.isPrivate }))}
      />
      <p class="small" id="grows">
        {text('liveMeans')}
      </p>
      {liveTitle !== null && (
        <input
          aria-label={text('title')}
          placeholder={text('title')}
          dir="auto"
          maxLength={TITLE_LENGTH_MAX}
          value={liveTitle}
          onInput={({ currentTarget: { value } }) => change((before) => ({ ...before, liveTitle: value }))}
        />
      )}
    </div>
  )
}
