import { page as text } from '../messages/page.ts'
import { acceptServer, serversToAccept } from '../ui/other-servers.ts'

/** For each server in the link of a page that this server does not know, the question whether to look for the page there. */
export function LookElsewhere({ cid }: { cid: string }) {
  return (
    <>
      {serversToAccept(cid).map((server) => {
        const { host } = new URL(server)
        return (
          <div key={server} class="waiting-help">
            <p>{text.withNodes('lookAt', { server: <bdi translate={false}>{host}</bdi> })}</p>
            <button type="button" onClick={() => acceptServer(cid, server)}>
              {text('lookThere', { server: host })}
            </button>
          </div>
        )
      })}
    </>
  )
}
