use super::Account;

/// The page over all stories, from what each wrote last.
pub fn summary(accounts: &[Account]) -> String {
    let mut text = String::from(
        "# Watchfire at scale\n\nWritten by `make scale`; each story has a page of its own. Both \
         ends of every connection are on the one machine, in a network of their own, so a figure \
         of CPU contains the kernel's work for the receiver, and memory is of both ends where it \
         does not say otherwise.\n\n",
    );
    if let Some(account) = accounts.first() {
        text += &format!("Machine: {}.\n\n", account.machine);
    }
    text += "| story | mark | measured | asked | |\n|---|---|---:|---:|---|\n";
    for account in accounts {
        for (index, mark) in account.marks.iter().enumerate() {
            let story = match index {
                0 => format!("[{}]({1}.md)", account.title, account.story),
                _ => String::new(),
            };
            text += &format!(
                "| {story} | {} | {} | {} | {} |\n",
                mark.what,
                mark.measured(),
                mark.asked(),
                mark.verdict()
            );
        }
    }
    text += "\n| story | date | command | took |\n|---|---|---|---:|\n";
    for account in accounts {
        text += &format!(
            "| {} | {} | `{}` | {} s |\n",
            account.story, account.date, account.command, account.seconds
        );
    }
    text
}
