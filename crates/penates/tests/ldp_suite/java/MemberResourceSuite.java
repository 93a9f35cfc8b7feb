import java.io.IOException;
import org.testng.annotations.BeforeTest;
import org.testng.annotations.Optional;
import org.testng.annotations.Parameters;
import org.w3.ldp.testsuite.test.MemberResourceTest;

/**
 * The suite's tests of members. In version 0.1.1 the set-up of that class overloads its parent's.
 * TestNG calls one of the two. Which one depends on the order in which Java lists methods, and that
 * differs between builds of Java. Here the set-up is called in any case. It does nothing the second
 * time.
 */
public class MemberResourceSuite extends MemberResourceTest {
    @Parameters("auth")
    public MemberResourceSuite(@Optional String auth) throws IOException {
        super(auth);
    }

    @Parameters({"directContainer", "indirectContainer", "basicContainer"})
    @BeforeTest(alwaysRun = true)
    public void createMember(@Optional String directContainer, @Optional String indirectContainer, @Optional String basicContainer) {
        setup(null, directContainer, indirectContainer, basicContainer, null);
    }
}
